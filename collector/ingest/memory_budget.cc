#include "collector/ingest/memory_budget.h"

#include <algorithm>

namespace stepagent::ingest {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// The program itself, its threads' stacks and what a writer has beside its lists. Seen: 7 to 12
// MiB, what is left of a peak (VmHWM) without its records. More would be taken from cycles.
constexpr uint64_t kOwnBytes = 24 * kMiB;
// From a record's arrival until its cycle is written: decoded, joined, in the writer's lists. Seen,
// as the growth of VmHWM from 300 to 1,300 thousand records of one sort in one cycle: 123 to 145
// with formats chrome, perfetto, sqlite, folded and pprof, 125 to 159 with html (copies the most),
// 81 to 88 for marks. A range is one record here, and two on the way.
constexpr uint64_t kBytesPerRecord = 160;
// A text of its own, mostly a range's name: a row in each table of the summary. Seen in the same
// way, with 50 and 200 thousand names: 1,800 bytes, and 5.9 more for each byte of the text. A stack
// of its own is reckoned as a text of eight bytes a frame.
constexpr uint64_t kBytesPerText = 2048;
constexpr uint64_t kBytesPerTextByte = 6;

uint64_t Reckon(uint64_t records, uint64_t texts, uint64_t text_bytes) {
  return records * kBytesPerRecord + texts * kBytesPerText + text_bytes * kBytesPerTextByte;
}

}  // namespace

MemoryBudget::MemoryBudget(uint64_t bytes) : bytes_(bytes) {}

void MemoryBudget::Join(const void* session, std::function<void()> ask) {
  const std::lock_guard lock(mutex_);
  needs_[session].ask = std::move(ask);
}

bool MemoryBudget::IsTooMuch(const void* session, uint64_t open) {
  const std::lock_guard lock(mutex_);
  Need& need = needs_[session];
  total_ = total_ - need.open + open;
  need.open = open;
  const bool is_enough = open == 0 || total_ + QueueBytes() + kOwnBytes <= bytes_;
  if (is_enough) need.is_asked = false;
  if (is_enough || need.is_asked) return need.is_asked;
  const auto largest =
      std::max_element(needs_.begin(), needs_.end(),
                       [](const auto& a, const auto& b) { return a.second.open < b.second.open; });
  if (largest->second.open <= open) return true;
  // It may be silent, in a long wait of its own: this session must not be the one to pay.
  if (!largest->second.is_asked && largest->second.ask) largest->second.ask();
  largest->second.is_asked = true;
  return false;
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

uint64_t NeedOf(const model::CycleBuilder::Progress& progress) {
  return std::max(progress.bytes_held,
                  progress.launch_bytes_held +
                      Reckon(progress.records_held, progress.texts_held, progress.text_bytes_held));
}

uint64_t NeedOf(const model::Cycle& c) {
  const uint64_t records = c.calls.size() + c.kernels.size() + c.copies.size() + c.sets.size() +
                           c.graph_launches.size() + c.syncs.size() + c.ranges.size() +
                           c.marks.size() + c.overheads.size() + c.memories.size();
  uint64_t text_bytes = 0;
  for (const std::string& text : c.strings) text_bytes += text.size();
  return Reckon(records, c.strings.size(), text_bytes);
}

std::string MemoryBudget::Text() const {
  return bytes_ % kMiB == 0 ? std::to_string(bytes_ / kMiB) + "MiB" : std::to_string(bytes_);
}

}  // namespace stepagent::ingest
