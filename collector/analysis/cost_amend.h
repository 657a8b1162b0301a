#pragma once
// A summary's cost, once the steps behind its cycle are known.
//
// Purpose: a cycle is summarised when it ends, and the steps behind it have not ended then. Their
// times change `cost` and the one reading that is made of it; all else stays as it was.
// Thread rule: free function. Failure rule: throws what nlohmann's JSON throws when the document is
// no summary of ours.
#include "collector/analysis/cost.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {

// Sets the step times of `cost`, and takes profiler_cost out of the readings, puts it there or says
// it anew: in its place where it had one, else last.
void AmendSummary(const RecordedSteps& recorded, const OtherSteps& others,
                  nlohmann::ordered_json* summary);

}  // namespace stepagent::analysis
