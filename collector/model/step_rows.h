#pragma once
// Host durations of all steps, put together from what each cycle's report adds.
//
// Purpose: an agent sends only the rows that are new since its last report, so that a thousand
// cycles cost a thousand times one, not the square of it.
// Thread rule: one owner.
// Failure rule: a row that comes twice is taken once; a lost report is a gap that is told, not
// filled. At most kMostStepRows rows: past that as many of the old ones as are new give way, by
// chance, which keeps the sample as even as the agent's own, whose rows gave way likewise. The
// chance is the same in every reading of the same file.
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "batch.pb.h"

#include "collector/model/cycle.h"

namespace stepagent::model {

inline constexpr size_t kMostStepRows = 10'000;  // an agent keeps as many

class StepRowStore {
 public:
  void Take(const v1::AllSteps& rows);
  // A step of which begin and end are known as well: its duration is their difference in every
  // document. The row was rounded from ticks on its own and may be a nanosecond or two off.
  void Learn(uint64_t index, uint64_t dur_ns);
  [[nodiscard]] AllSteps All() const;  // by step
  // Rows that must have been sent are not here.
  [[nodiscard]] bool has_gap() const;

 private:
  void MakeRoom(size_t wanted);
  uint64_t Random();

  uint64_t count_ = 0;
  uint64_t random_ = 1;
  std::vector<StepDuration> rows_;
  std::unordered_set<uint64_t> indexes_;  // of rows_
  std::unordered_map<uint64_t, uint64_t> known_;  // at most kMostStepRows
};

}  // namespace stepagent::model
