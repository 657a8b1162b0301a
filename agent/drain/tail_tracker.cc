#include "agent/drain/tail_tracker.h"

#include <bit>

#include "proto/settings.h"

namespace stepagent::drain {
namespace {

constexpr uint64_t kDeviceBits = 0x8888888888888888;  // bit 3 of each four

uint32_t ShiftOf(uint32_t correlation) { return (correlation & 15) * 4; }

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
  for (uint32_t slot = 1; slot < kSlots; ++slot) {
    if (holds(windows_[slot])) return last_slot_ = slot;
  }
  return 0;
}

int TailTracker::FindWindow(uint32_t cycle) const {
  for (uint32_t slot = 1; slot < kSlots; ++slot) {
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
  // Grace times are short against windows: seven tails at once mean that nobody asks for them any
  // more, and the oldest is given up.
  uint32_t slot = 1;
  for (uint32_t i = 1; i < kSlots; ++i) {
    if (!windows_[i].in_use) {
      slot = i;
      break;
    }
    if (windows_[i].begin_ticks < windows_[slot].begin_ticks) slot = i;
  }
  if (windows_[slot].in_use) (void)Forget(windows_[slot].cycle);
  if (windows_[slot].stale) EraseSlot(slot);
  windows_[slot] = Window{.cycle = cycle, .begin_ticks = begin_ticks, .in_use = true};
  for (const LoggedCall& call : log_) {
    if (call.correlation != 0 && call.begin_ticks >= begin_ticks) Own(call.correlation, slot);
  }
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
  const uint64_t nibble = (*word >> shift) & 0xF;
  if ((nibble & 8) != 0) return;
  if (nibble != 0) Settle(static_cast<uint32_t>(nibble), is_cut);
  *word = (*word & ~(uint64_t{7} << shift)) | (uint64_t{8} << shift);
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
    const auto shift = static_cast<uint32_t>(std::countr_zero(owed)) & ~3U;
    const auto slot = static_cast<uint32_t>((owed >> shift) & 7);
    owed &= ~(uint64_t{7} << shift);
    if (old_.size() < kMaxOld) {
      old_.emplace((tags_[word] - 1) * kIdsPerWord + shift / 4, slot);
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
  if (((*word >> shift) & 0xF) != 0) return;  // the record was first, or owned already
  *word |= uint64_t{slot} << shift;
  ++windows_[slot].outstanding;
}

void TailTracker::Disown(uint32_t correlation, uint32_t slot) {
  uint64_t* word = WordOf(correlation);
  if (word == nullptr) return;
  const uint32_t shift = ShiftOf(correlation);
  if (((*word >> shift) & 0xF) != slot) return;
  *word &= ~(uint64_t{0xF} << shift);
  Settle(slot);
}

uint64_t TailTracker::Outstanding(uint32_t cycle) const {
  const int slot = FindWindow(cycle);
  return slot < 0 ? 0 : windows_[slot].outstanding;
}

uint64_t TailTracker::Forget(uint32_t cycle) {
  const int slot = FindWindow(cycle);
  if (slot < 0) return 0;
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
    for (uint32_t shift = 0; tags_[word] != 0 && shift < 64; shift += 4) {
      if (((words_[word] >> shift) & 0xF) == slot) words_[word] &= ~(uint64_t{0xF} << shift);
    }
  }
  std::erase_if(old_, [slot](const auto& entry) { return entry.second == slot; });
}

size_t TailTracker::bytes() const {
  const size_t table = words_ == nullptr ? 0 : kWords * (sizeof(uint64_t) + sizeof(uint32_t));
  return table + old_.size() * 48 + log_.size() * sizeof(LoggedCall);
}

}  // namespace stepagent::drain
