#pragma once
// Tables of a summary as text of at most 100 columns.
//
// Purpose: one list of columns per table; header, sorting, `--top` and the rest line are common.
// Thread rule: free functions.
// Failure rule: a null table prints the reason it is absent, an empty one "none".
#include <string>
#include <string_view>

#include "collector/analysis/summary.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {

// `title` heads the table; its second line names the denominator of the shares.
[[nodiscard]] std::string TableText(const nlohmann::ordered_json& summary, std::string_view table,
                                    const RenderOptions& options);

}  // namespace stepagent::analysis
