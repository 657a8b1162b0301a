#pragma once
// Two sets of cycles against each other: what was set differently, then what takes longer.
//
// Purpose: `stepagent diff`. It compares times per step, not results: whether both computed the
// same is not looked at. Everything that differs besides the times is named first, because most
// differences of times are explained there.
// Thread rule: free functions over summaries (stepagent.summary/1).
// Failure rule: what one side does not hold is null and said; an older summary lacks `per_step`,
// and its rows then have no verdict.
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace stepagent::analysis {

struct DiffSide {
  std::string origin;                                 // as the user named it
  std::vector<const nlohmann::ordered_json*> cycles;  // at least one
};

// stepagent.diff/1: {a b differences steps kernels copies calls compares}.
[[nodiscard]] nlohmann::ordered_json Diff(const DiffSide& a, const DiffSide& b);

// The same for a person, 100 columns; `top` rows a table, 0 all.
[[nodiscard]] std::string RenderDiff(const nlohmann::ordered_json& diff, size_t top);

}  // namespace stepagent::analysis
