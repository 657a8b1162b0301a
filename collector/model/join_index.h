#pragma once
// Finds the call that launched a piece of device work.
//
// Purpose: correlation ids are 32 bits wide, wrap, and are reused across cycles; of several calls
// with one id the newest that began before the work did is its launch. Thread rule: built, then
// read. Failure rule: not found is an answer.
#include <cstdint>
#include <vector>

#include "collector/model/store.h"

namespace stepagent::model {

class JoinIndex {
 public:
  static constexpr int32_t kNone = -1;     // no launch seen
  static constexpr int32_t kOutside = -2;  // launched outside the window
  static constexpr int32_t kLater = -3;    // launched in a later cycle

  void Reserve(size_t entries) { entries_.reserve(entries_.size() + entries); }
  void Add(uint32_t correlation, TimeNs begin_ns, int32_t where);
  void Finish();
  // Index of the call in the cycle, or one of the constants. Without a usable stamp: the newest.
  [[nodiscard]] int32_t Find(uint32_t correlation, std::optional<TimeNs> device_begin_ns) const;

 private:
  struct Entry {
    uint32_t correlation;
    int32_t where;
    TimeNs begin_ns;
  };
  std::vector<Entry> entries_;
  // Where the last answer was: work comes in about the order of its launches.
  mutable size_t last_ = 0;
};

}  // namespace stepagent::model
