#pragma once
// The table of idle time for a person.
//
// Purpose: whose place the rows tell and of which time, above them; words where a row has null.
// Thread rule: free functions. Failure rule: of a summary without the table nothing is said.
#include <string>

#include "nlohmann/json.hpp"

namespace stepagent::analysis {

// Lines of at most kTextColumns; the summary has the table.
[[nodiscard]] std::string IdleLead(const nlohmann::ordered_json& summary);
[[nodiscard]] nlohmann::ordered_json IdleRowInWords(const nlohmann::ordered_json& summary,
                                                    const nlohmann::ordered_json& row);

}  // namespace stepagent::analysis
