#include "collector/model/range_matcher.h"

#include <algorithm>

namespace stepagent::model {
namespace {

// A million open ranges is a program that never closes them; 96 bytes each.
constexpr uint64_t kMaxOpen = 1 << 20;
constexpr size_t kMaxEarlyEnds = 1 << 16;

}  // namespace

bool RangeMatcher::HasRoom() {
  if (open_ < kMaxOpen) return true;
  ++lost_begins_;
  return false;
}

void RangeMatcher::Close(const Range& range, uint32_t end_thread, TimeNs at_ns) {
  closed_->push_back(range);
  closed_->back().end_ns = std::max(at_ns, range.begin_ns);
  closed_->back().end_thread = end_thread;
  --open_;
}

void RangeMatcher::CloseAbove(std::vector<Range>* stack, uint32_t depth, TimeNs at_ns) {
  while (!stack->empty() && stack->back().depth >= depth) {
    Close(stack->back(), stack->back().thread, at_ns);
    stack->pop_back();
  }
}

void RangeMatcher::Push(const Range& begin, uint32_t depth) {
  std::vector<Range>& stack = stacks_[{begin.thread, begin.domain}];
  // Something still open at this depth: its pop was lost on the way.
  CloseAbove(&stack, depth, begin.begin_ns);
  if (!HasRoom()) return;
  stack.push_back(begin);
  stack.back().depth = depth;
  ++open_;
}

void RangeMatcher::Pop(uint32_t thread, StringId domain, uint32_t depth, TimeNs at_ns) {
  const auto found = stacks_.find({thread, domain});
  if (found == stacks_.end() || found->second.empty()) {
    ++unmatched_ends_;
    return;
  }
  std::vector<Range>& stack = found->second;
  CloseAbove(&stack, depth + 1, at_ns);
  if (stack.empty() || stack.back().depth != depth) {
    ++unmatched_ends_;
    return;
  }
  Close(stack.back(), thread, at_ns);
  stack.pop_back();
}

void RangeMatcher::Start(const Range& begin, uint64_t id) {
  if (!HasRoom()) return;
  if (!started_.emplace(id, begin).second) {
    ++lost_begins_;
    return;
  }
  ++open_;
  const auto early = early_ends_.find(id);
  if (early == early_ends_.end()) return;
  const EarlyEnd end = early->second;
  early_ends_.erase(early);
  --unmatched_ends_;
  End(id, end.thread, end.at_ns);
}

void RangeMatcher::End(uint64_t id, uint32_t thread, TimeNs at_ns) {
  const auto found = started_.find(id);
  if (found == started_.end()) {
    ++unmatched_ends_;
    if (early_ends_.size() < kMaxEarlyEnds) early_ends_.emplace(id, EarlyEnd{thread, at_ns});
    return;
  }
  Close(found->second, thread, at_ns);
  started_.erase(found);
}

std::vector<Range> RangeMatcher::Open() const {
  std::vector<Range> open;
  open.reserve(open_);
  for (const auto& [key, stack] : stacks_) open.insert(open.end(), stack.begin(), stack.end());
  for (const auto& [id, range] : started_) open.push_back(range);
  for (Range& range : open) range.end_ns = range.begin_ns;
  return open;
}

void RangeMatcher::Clear() {
  stacks_.clear();
  started_.clear();
  early_ends_.clear();
  open_ = 0;
}

}  // namespace stepagent::model
