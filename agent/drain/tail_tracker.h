#pragma once
// TailTracker: which launches of a window still owe a device record.
//
// Purpose: a window's device part is complete when every launch in it has its record. Calls come
// from the rings, device records from CUPTI's buffers, in no order between the two; a record may
// come before its call, and a graph's launch may have many.
// Thread rule: the thread `stepagent` only.
// Failure rule: bounded whatever comes: a table of 2^20 correlation ids that slides with the newest
// one, and a small set for launches that are owed so long that the table slid past them. Beyond
// that a launch is forgotten and counted; the tail then ends too early, never never. Of more than
// kMostWindows windows at once the oldest is given up, and Forget says so.
//
// How: a byte for each id: 1 bit "a device record came", 7 the window that the call began in, 0
// none. Ids are 32 bits and wrap; a word knows which 8 ids it stands for, and what is older than
// the table is told from what is newer by serial arithmetic.
//
// A window is opened and closed when the gate's event is drained, which may be a little after calls
// of it (or after its end) were drained: the last few thousand calls are kept and looked at again.
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "agent/core/record.h"

namespace stepagent::drain {

class TailTracker {
 public:
  static constexpr uint32_t kMostWindows = 127;  // at once

  void OpenWindow(uint32_t cycle, uint64_t begin_ticks);
  void CloseWindow(uint32_t cycle, uint64_t end_ticks);
  // ActivityBit set of device kinds that are on; a call of another kind owes nothing.
  void SetAwaited(uint32_t activities) { awaited_ = activities; }

  void OnCall(const core::Record& call);
  // is_cut: without its end, which will not come any more: no longer waited for, and owed.
  void OnDevice(uint32_t correlation, bool is_cut = false);

  [[nodiscard]] uint64_t Outstanding(uint32_t cycle) const;
  // Returns how many launches of the cycle were still owed, cut ones among them. *was_given_up: not
  // because they did not come, but because too many windows were open at once.
  uint64_t Forget(uint32_t cycle, bool* was_given_up = nullptr);
  // Launches given up because the table and the set were full.
  [[nodiscard]] uint64_t forgotten() const { return forgotten_; }
  [[nodiscard]] size_t bytes() const;

 private:
  static constexpr uint32_t kIdsPerWord = 8;
  static constexpr uint32_t kWords = 1U << 17;          // 2^20 ids, 1.5 MiB, touched as used
  static constexpr uint32_t kSlots = kMostWindows + 1;  // slot 0 means none
  static constexpr size_t kMaxOld = 1U << 14;
  static constexpr uint32_t kLogged = 1U << 12;

  struct Window {
    uint32_t cycle = 0;
    uint64_t begin_ticks = 0, end_ticks = UINT64_MAX;
    uint64_t outstanding = 0;
    uint64_t cut = 0;  // settled by a record without an end
    bool in_use = false;
    bool stale = false;  // forgotten while launches still named this slot
  };
  struct LoggedCall {
    uint64_t begin_ticks = 0;
    uint32_t correlation = 0;
  };

  [[nodiscard]] bool Owes(const core::Record& call) const;
  [[nodiscard]] uint32_t SlotOf(uint64_t begin_ticks) const;
  [[nodiscard]] int FindWindow(uint32_t cycle) const;
  [[nodiscard]] uint32_t ChooseSlot();
  // The word of an id, moved forward to it if it is newer; nullptr: the id is older than the table.
  uint64_t* WordOf(uint32_t correlation);
  void EvictWord(uint32_t word);
  void Own(uint32_t correlation, uint32_t slot);
  void Disown(uint32_t correlation, uint32_t slot);
  void Settle(uint32_t slot, bool is_cut = false) {
    if (windows_[slot].outstanding == 0) return;
    --windows_[slot].outstanding;
    if (is_cut) ++windows_[slot].cut;
  }
  void EraseSlot(uint32_t slot);

  struct GivenUp {
    uint32_t cycle;
    uint64_t owed;
  };

  Window windows_[kSlots];
  uint32_t slots_used_ = 1;        // those from here on never were
  std::vector<GivenUp> given_up_;  // and not asked for yet
  std::unique_ptr<uint64_t[]> words_;
  std::unique_ptr<uint32_t[]> tags_;            // id / kIdsPerWord + 1; 0 unused
  std::unordered_map<uint32_t, uint32_t> old_;  // id -> slot
  std::vector<LoggedCall> log_;
  uint32_t log_next_ = 0;
  mutable uint32_t last_slot_ = 1;  // calls come window by window
  uint32_t awaited_ = UINT32_MAX;
  uint64_t forgotten_ = 0;
};

}  // namespace stepagent::drain
