#pragma once
// Everything of a cycle that is a count or a verdict: balance, kinds, joins, GPU status, notes.
//
// Purpose: the rule "nothing absent is shown as zero, and what was asked for and never came is
// said" in one place. Thread rule: pure functions on one cycle. Failure rule: what cannot be known
// is empty, with a note.
#include "collector/model/verdict.h"

namespace stepagent::model {

void FillVerdict(const Verdict& v, Cycle* cycle);

}  // namespace stepagent::model
