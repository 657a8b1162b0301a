#pragma once
// The summary of one cycle: every table and reading, as JSON and as text for a person.
//
// Purpose: `Summarize` computes each figure once, from the canonical cycle; the text and `report`
// render that JSON, so the two never disagree. Sums never stand in for elapsed time: device figures
// are unions of intervals, and every share names its denominator.
// Thread rule: free functions over an immutable cycle.
// Failure rule: what was not collected is null with a reason; an empty cycle gives empty tables.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/writer.h"
#include "nlohmann/json_fwd.hpp"

namespace stepagent::analysis {

// `stepagent.summary/1`.
[[nodiscard]] nlohmann::ordered_json Summarize(const model::Cycle& cycle);

struct RenderOptions {
  size_t top = 8;                  // rows a table; 0: all
  std::string sort;                // a column's name; "": total time
  std::string by;                  // a word of KnownTables(); "": the whole summary
  std::vector<std::string> files;  // shown under the head when given
};
inline constexpr size_t kTextColumns = 100;
[[nodiscard]] const std::vector<std::string_view>& KnownTables();
[[nodiscard]] const std::vector<std::string>& KnownSortKeys();
// "" when the table has that column, else one line that names those it has.
[[nodiscard]] std::string WhyNotSorted(std::string_view by, const std::string& sort);
// {table rows rows_left_out totals}: the rows of one table, sorted and cut as `options` say, and
// the sums over all of them; null where it was not collected.
[[nodiscard]] nlohmann::ordered_json TableDocument(const nlohmann::ordered_json& summary,
                                                   std::string_view by,
                                                   const RenderOptions& options);
// The summary with the first `top` rows of each table, and `left_out`: by the table's key how many
// more there are, and the totals of all.
[[nodiscard]] nlohmann::ordered_json WithFewerRows(nlohmann::ordered_json summary, size_t top);
[[nodiscard]] std::string RenderSummaryText(const nlohmann::ordered_json& summary,
                                            const RenderOptions& options);
[[nodiscard]] std::string RenderSummaryText(const model::Cycle& cycle, size_t top = 8);

// Writes <cycle_dir>/summary.json and summary.txt. Never overwrites.
[[nodiscard]] writers::WriteResult WriteSummary(const model::Cycle& cycle,
                                                const std::string& cycle_dir);

// One line for an exit message or `start`: the first reading, or that nothing stands out.
[[nodiscard]] std::string FirstReading(const nlohmann::ordered_json& summary);

}  // namespace stepagent::analysis
