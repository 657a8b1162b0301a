#pragma once
// What batches that never came mean for a cycle: its steps are not whole.
//
// Purpose: a step with a hole in it must not be compared as a whole one. Which steps a hole touches
// is told by the times of the batches beside it; where those are not known it touches all.
// Thread rule: pure functions on one cycle. Failure rule: rather one step too many than one too few.
#include "collector/model/verdict.h"

namespace stepagent::model {

// Marks the steps incomplete and blanks what nobody can count of them.
void MarkLossySteps(const Verdict& v, Cycle* cycle);
// Whether records of the cycle may be among what was lost.
[[nodiscard]] bool IsTouchedByLoss(const Verdict& v, const Cycle& cycle);

}  // namespace stepagent::model
