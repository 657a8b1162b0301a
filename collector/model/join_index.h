#pragma once
// Finds the call that launched a piece of device work.
//
// Purpose: correlation ids are 32 bits wide, wrap, and are reused across cycles; of several calls
// with one id the newest that began before the work did is its launch. Thread rule: built, then
// read. Failure rule: not found is an answer.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "collector/model/store.h"

namespace stepagent::model {

class JoinIndex {
 public:
  static constexpr int32_t kNone = -1;  // no launch seen
  static constexpr int32_t kOutside = Launch::kOutside;
  static constexpr int32_t kLater = Launch::kLater;

  // `earlier`: those of the cycle before.
  explicit JoinIndex(std::vector<Launch> earlier = {}) : entries_(std::move(earlier)) {}
  void Reserve(size_t entries) { entries_.reserve(entries_.size() + entries); }
  void Add(uint32_t correlation, TimeNs begin_ns, int32_t where);
  // All that was added with an index of the cycle.
  void ForgetHere();
  void Finish();
  // After Finish: two calls of the cycle have one id.
  [[nodiscard]] bool HasTwoHere() const;
  // Index of the call in the cycle, or one of the constants. Without a usable stamp: the newest.
  [[nodiscard]] int32_t Find(uint32_t correlation, std::optional<TimeNs> device_begin_ns) const;
  // What the next cycle's index begins with: of this cycle's calls alone, older ones had a whole
  // cycle for their device work. The index is empty then.
  [[nodiscard]] std::vector<Launch> Take();

 private:
  std::vector<Launch> entries_;
  // Where the last answer was: work comes in about the order of its launches.
  mutable size_t last_ = 0;
};

}  // namespace stepagent::model
