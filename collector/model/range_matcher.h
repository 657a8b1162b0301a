#pragma once
// Pairs NVTX begins with their ends.
//
// Purpose: push/pop as a stack per (thread, domain), start/end by id across the process.
// Thread rule: belongs to one builder.
// Failure rule: an end without a begin is counted; a begin whose end was lost is closed where the
// depths show that it must have been over. Open ranges are capped, further ones are counted as
// lost.
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::model {

class RangeMatcher {
 public:
  // Closed ranges are appended to *closed.
  explicit RangeMatcher(std::vector<Range>* closed) : closed_(closed) {}

  void Push(const Range& begin, uint32_t depth);
  void Pop(uint32_t thread, StringId domain, uint32_t depth, TimeNs at_ns);
  void Start(const Range& begin, uint64_t id);
  void End(uint64_t id, uint32_t thread, TimeNs at_ns);

  [[nodiscard]] std::vector<Range> Open() const;  // end_ns is begin_ns in these
  void Clear();
  [[nodiscard]] uint64_t unmatched_ends() const { return unmatched_ends_; }
  [[nodiscard]] uint64_t lost_begins() const { return lost_begins_; }

 private:
  using StackKey = std::pair<uint32_t, StringId>;  // thread, domain
  void CloseAbove(std::vector<Range>* stack, uint32_t depth, TimeNs at_ns);
  void Close(const Range& range, uint32_t end_thread, TimeNs at_ns);
  [[nodiscard]] bool HasRoom();

  std::vector<Range>* closed_;
  std::map<StackKey, std::vector<Range>> stacks_;
  std::unordered_map<uint64_t, Range> started_;
  // Ends that came before their begin: another thread's ring was drained first.
  struct EarlyEnd {
    uint32_t thread;
    TimeNs at_ns;
  };
  std::unordered_map<uint64_t, EarlyEnd> early_ends_;
  uint64_t open_ = 0, unmatched_ends_ = 0, lost_begins_ = 0;
};

}  // namespace stepagent::model
