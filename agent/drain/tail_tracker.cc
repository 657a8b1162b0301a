#include "agent/drain/tail_tracker.h"

#include <algorithm>
#include <bit>

#include "proto/settings.h"

namespace stepagent::drain {
namespace {

// Of an id's byte.
constexpr uint64_t kDeviceBit = 0x80, kSlotBits = 0x7F, kAllBits = 0xFF;
constexpr uint64_t kDeviceBits = 0x8080808080808080;  // of a word's eight ids

uint32_t ShiftOf(uint32_t correlation) { return (correlation & 7) * 8; }

// Whether `a` comes before `b` in a sequence that wraps.
bool IsOlder(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace

bool TailTracker::Owes(const core::Record& call) const {
  constexpr uint32_t kOwesNothing = core::kCallFailed | core::kCallCaptured | core::kCallEmpty;
  if ((call.category & kOwesNothing) != 0 || call.correlation == 0) return false;
  switch (call.call_class) {
    case core::CallClass::kLaunch:
    case core::CallClass::kGraphLaunch:
      return (awaited_ & proto::ActivityBit(1)) != 0;
    case core::CallClass::kMemcpy:
      return (awaited_ & proto::ActivityBit(2)) != 0;
    case core::CallClass::kMemset:
      return (awaited_ & proto::ActivityBit(3)) != 0;
    default:
      return false;
  }
}

uint32_t TailTracker::SlotOf(uint64_t begin_ticks) const {
  const auto holds = [&](const Window& w) {
    return w.in_use && begin_ticks >= w.begin_ticks && begin_ticks < w.end_ticks;
  };
  if (holds(windows_[last_slot_])) [[likely]]
    return last_slot_;
  for (uint32_t slot = 1; slot < slots_used_; ++slot) {
    if (holds(windows_[slot])) return last_slot_ = slot;
  }
  return 0;
}

int TailTracker::FindWindow(uint32_t cycle) const {
  for (uint32_t slot = 1; slot < slots_used_; ++slot) {
    if (windows_[slot].in_use && windows_[slot].cycle == cycle) return static_cast<int>(slot);
  }
  return -1;
}

void TailTracker::OpenWindow(uint32_t cycle, uint64_t begin_ticks) {
  if (words_ == nullptr) {
    words_ = std::make_unique<uint64_t[]>(kWords);
    tags_ = std::make_unique<uint32_t[]>(kWords);
  }
  if (FindWindow(cycle) >= 0) return;
  const uint32_t slot = ChooseSlot();
  windows_[slot] = Window{.cycle = cycle, .begin_ticks = begin_ticks, .in_use = true};
  for (const LoggedCall& call : log_) {
    if (call.correlation != 0 && call.begin_ticks >= begin_ticks) Own(call.correlation, slot);
  }
}

// A free one, better one that nothing refers to; else the oldest is given up.
uint32_t TailTracker::ChooseSlot() {
  static_assert(kSlots - 1 == kSlotBits);
  uint32_t stale = 0, oldest = 1;
  for (uint32_t slot = 1; slot < kSlots; ++slot) {
    const Window& window = windows_[slot];
    if (window.in_use) {
      if (window.begin_ticks < windows_[oldest].begin_ticks) oldest = slot;
    } else if (!window.stale) {
      slots_used_ = std::max(slots_used_, slot + 1);
      return slot;
    } else if (stale == 0) {
      stale = slot;
    }
  }
  const uint32_t slot = stale != 0 ? stale : oldest;
  if (windows_[slot].in_use) {
    const uint32_t cycle = windows_[slot].cycle;
    given_up_.push_back({cycle, Forget(cycle)});
  }
  if (windows_[slot].stale) EraseSlot(slot);
  return slot;
}

void TailTracker::CloseWindow(uint32_t cycle, uint64_t end_ticks) {
  const int slot = FindWindow(cycle);
  if (slot < 0) return;
  windows_[slot].end_ticks = end_ticks;
  for (const LoggedCall& call : log_) {
    if (call.correlation != 0 && call.begin_ticks >= end_ticks) {
      Disown(call.correlation, static_cast<uint32_t>(slot));
    }
  }
}

void TailTracker::OnCall(const core::Record& call) {
  if (!Owes(call)) return;
  if (log_.empty()) log_.resize(kLogged);
  log_[log_next_++ % kLogged] = LoggedCall{call.begin_ticks, call.correlation};
  const uint32_t slot = SlotOf(call.begin_ticks);
  if (slot != 0) Own(call.correlation, slot);
}

void TailTracker::OnDevice(uint32_t correlation, bool is_cut) {
  if (words_ == nullptr) return;
  uint64_t* word = WordOf(correlation);
  if (word == nullptr) {
    const auto found = old_.find(correlation);
    if (found == old_.end()) return;
    Settle(found->second, is_cut);
    old_.erase(found);
    return;
  }
  const uint32_t shift = ShiftOf(correlation);
  const uint64_t id = (*word >> shift) & kAllBits;
  if ((id & kDeviceBit) != 0) return;
  if (id != 0) Settle(static_cast<uint32_t>(id), is_cut);
  *word = (*word & ~(kSlotBits << shift)) | (kDeviceBit << shift);
}

uint64_t* TailTracker::WordOf(uint32_t correlation) {
  const uint32_t tag = correlation / kIdsPerWord + 1;
  const uint32_t word = (correlation / kIdsPerWord) % kWords;
  if (tags_[word] == tag) [[likely]]
    return &words_[word];
  if (tags_[word] != 0) {
    const uint32_t held = (tags_[word] - 1) * kIdsPerWord;
    if (IsOlder(correlation, held)) return nullptr;
    EvictWord(word);
  }
  tags_[word] = tag;
  words_[word] = 0;
  return &words_[word];
}

void TailTracker::EvictWord(uint32_t word) {
  uint64_t owed = words_[word] & ~kDeviceBits;
  while (owed != 0) {
    const auto shift = static_cast<uint32_t>(std::countr_zero(owed)) & ~7U;
    const auto slot = static_cast<uint32_t>((owed >> shift) & kSlotBits);
    owed &= ~(kSlotBits << shift);
    if (old_.size() < kMaxOld) {
      old_.emplace((tags_[word] - 1) * kIdsPerWord + shift / 8, slot);
    } else {
      Settle(slot);
      ++forgotten_;
    }
  }
}

void TailTracker::Own(uint32_t correlation, uint32_t slot) {
  uint64_t* word = WordOf(correlation);
  if (word == nullptr) return;  // returned a million calls after it began: its record is long in
  const uint32_t shift = ShiftOf(correlation);
  if (((*word >> shift) & kAllBits) != 0) return;  // the record was first, or owned already
  *word |= uint64_t{slot} << shift;
  ++windows_[slot].outstanding;
}

void TailTracker::Disown(uint32_t correlation, uint32_t slot) {
  uint64_t* word = WordOf(correlation);
  if (word == nullptr) return;
  const uint32_t shift = ShiftOf(correlation);
  if (((*word >> shift) & kAllBits) != slot) return;
  *word &= ~(kAllBits << shift);
  Settle(slot);
}

uint64_t TailTracker::Outstanding(uint32_t cycle) const {
  const int slot = FindWindow(cycle);
  return slot < 0 ? 0 : windows_[slot].outstanding;
}

uint64_t TailTracker::Forget(uint32_t cycle, bool* was_given_up) {
  const int slot = FindWindow(cycle);
  if (slot < 0) {
    const auto found =
        std::find_if(given_up_.begin(), given_up_.end(),
                     [cycle](const GivenUp& window) { return window.cycle == cycle; });
    if (found == given_up_.end()) return 0;
    const uint64_t owed = found->owed;
    given_up_.erase(found);
    if (was_given_up != nullptr) *was_given_up = true;
    return owed;
  }
  Window& window = windows_[slot];
  const uint64_t owed = window.outstanding + window.cut;
  window.in_use = false;
  window.stale = window.outstanding != 0;
  window.outstanding = 0;
  return owed;
}

// Late records of a forgotten window must not settle launches of the one that takes its slot.
void TailTracker::EraseSlot(uint32_t slot) {
  for (uint32_t word = 0; word < kWords; ++word) {
    for (uint32_t shift = 0; tags_[word] != 0 && shift < 64; shift += 8) {
      if (((words_[word] >> shift) & kAllBits) == slot) words_[word] &= ~(kAllBits << shift);
    }
  }
  std::erase_if(old_, [slot](const auto& entry) { return entry.second == slot; });
}

size_t TailTracker::bytes() const {
  const size_t table = words_ == nullptr ? 0 : kWords * (sizeof(uint64_t) + sizeof(uint32_t));
  return table + old_.size() * 48 + log_.size() * sizeof(LoggedCall);
}

}  // namespace stepagent::drain
