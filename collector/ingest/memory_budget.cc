#include "collector/ingest/memory_budget.h"

#include <algorithm>

namespace stepagent::ingest {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// The program itself, its threads' stacks and what a writer has beside its lists.
constexpr uint64_t kOwnBytes = 24 * kMiB;

}  // namespace

MemoryBudget::MemoryBudget(uint64_t bytes) : bytes_(bytes) {}

bool MemoryBudget::IsTooMuch(const void* session, uint64_t open) {
  const std::lock_guard lock(mutex_);
  Need& need = needs_[session];
  total_ = total_ - need.open + open;
  need.open = open;
  if (open == 0 || total_ + QueueBytes() + kOwnBytes <= bytes_) return false;
  return std::all_of(needs_.begin(), needs_.end(),
                     [&](const auto& other) { return other.second.open <= open; });
}

void MemoryBudget::SetClosed(const void* session, uint64_t closed) {
  const std::lock_guard lock(mutex_);
  Need& need = needs_[session];
  total_ = total_ - need.closed + closed;
  need.closed = closed;
}

void MemoryBudget::Forget(const void* session) {
  const std::lock_guard lock(mutex_);
  const auto found = needs_.find(session);
  if (found == needs_.end()) return;
  total_ -= found->second.open + found->second.closed;
  needs_.erase(found);
}

uint64_t NeedOf(const model::Cycle& c) {
  const uint64_t records = c.calls.size() + c.kernels.size() + c.copies.size() + c.sets.size() +
                           c.graph_launches.size() + c.syncs.size() + c.ranges.size() +
                           c.marks.size() + c.overheads.size() + c.memories.size();
  return records * MemoryBudget::kBytesPerRecord;
}

std::string MemoryBudget::Text() const {
  return bytes_ % kMiB == 0 ? std::to_string(bytes_ / kMiB) + "MiB" : std::to_string(bytes_);
}

}  // namespace stepagent::ingest
