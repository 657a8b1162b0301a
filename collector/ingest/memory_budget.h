#pragma once
// How much memory the cycles of all sessions may take together.
//
// Purpose: the collector stands beside an application that needs the memory itself. When it is too
// much, the session with the most in open cycles lets them go: they are in its raw file and are
// written by whoever reads that later (`report`, `wait`, the end of `run`).
// Thread rule: any thread; one mutex, held while a session is asked. Failure rule: cannot fail.
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "collector/model/builder.h"
#include "collector/model/cycle.h"

namespace stepagent::ingest {

class MemoryBudget {
 public:
  // `bytes`: the most memory that the process may take.
  explicit MemoryBudget(uint64_t bytes);
  // `ask` is called, on any thread, when it is the session's turn to let go, in case nothing comes
  // from it for long: it has IsTooMuch asked once more, elsewhere. May be empty.
  void Join(const void* session, std::function<void()> ask);
  // What `session` needs for cycles that are still open. True: all together it is too much, and it
  // is this session's turn to let go.
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
    bool is_asked = false;
    std::function<void()> ask;
  };
  const uint64_t bytes_;
  std::mutex mutex_;
  std::map<const void*, Need> needs_;
  uint64_t total_ = 0;
};

// What the cycles that are open, and one that is being written, need until they are written.
[[nodiscard]] uint64_t NeedOf(const model::CycleBuilder::Progress& progress);
[[nodiscard]] uint64_t NeedOf(const model::Cycle& cycle);

}  // namespace stepagent::ingest
