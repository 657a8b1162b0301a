#pragma once
// How much memory the cycles of all sessions may take together.
//
// Purpose: the collector stands beside an application that needs the memory itself. When it is too
// much, the session with the most in open cycles lets them go: they are in its raw file and are
// written by whoever reads that later (`report`, `wait`, the end of `run`, `convert`).
// Thread rule: any thread; one mutex. Failure rule: cannot fail.
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "collector/model/cycle.h"

namespace stepagent::ingest {

class MemoryBudget {
 public:
  // What a record takes at most, from its arrival until its cycle is written: decoded, joined and
  // in the writer's lists. Seen are 96 to 119 bytes (collector_memory_test).
  static constexpr uint64_t kBytesPerRecord = 128;

  // `bytes`: the most memory that the process may take.
  explicit MemoryBudget(uint64_t bytes);
  // What `session` needs for cycles that are still open. True: all together it is too much, and of
  // what could be let go this session has the most.
  [[nodiscard]] bool IsTooMuch(const void* session, uint64_t open);
  // What it needs for cycles that are being written.
  void SetClosed(const void* session, uint64_t closed);
  void Forget(const void* session);
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  // Of these, what may wait to be taken in.
  [[nodiscard]] uint64_t QueueBytes() const { return bytes_ / 8; }
  // "256MiB", as in messages.
  [[nodiscard]] std::string Text() const;

 private:
  struct Need {
    uint64_t open = 0, closed = 0;
  };
  const uint64_t bytes_;
  std::mutex mutex_;
  std::map<const void*, Need> needs_;
  uint64_t total_ = 0;
};

// What a cycle that is being written needs.
[[nodiscard]] uint64_t NeedOf(const model::Cycle& cycle);

}  // namespace stepagent::ingest
