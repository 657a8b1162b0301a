#pragma once
// What is said of a cycle beside its counts: a note for each thing that was lost, odd or uncertain.
//
// Purpose: one sentence for each, with what to do where something can be done. Thread rule: pure
// functions on one cycle. Failure rule: each code is noted once.
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/model/verdict.h"

namespace stepagent::model {

// After the counts and joins are filled in.
void FillNotes(const Verdict& v, Cycle* cycle);
// "1 launch", "9 launches", "2 ranges".
[[nodiscard]] std::string Plural(uint64_t n, std::string_view what);
// How many batches are missing.
[[nodiscard]] std::string LostText(const Verdict& v);

}  // namespace stepagent::model
