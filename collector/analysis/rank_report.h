#pragma once
// Several ranks side by side: who takes how long, and whose own work it is.
//
// Purpose: one row per rank, the slowest rank and the skew of each step, and readings that separate
// a rank that works longer from ranks that wait for it. Made from summaries alone, so that it is
// the same for a live run, an old one and files of other hosts.
// Thread rule: free functions over immutable documents.
// Failure rule: a figure whose input is absent is null; documents of another shape are left out.
//
// Own work of a step: its wall time less the time in which a collective of it ran with no compute
// beside. Waiting for other ranks happens inside collectives, so this is what the rank itself took
// (its own share of a transfer counts as waiting: the two cannot be told apart from one side).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace stepagent::analysis {

// What a cycle's summary says of its devices' time, added over them.
struct DeviceFigures {
  std::optional<int64_t> busy_ns, idle_ns, collective_ns, exposed_ns;
  // Some device records came and not all (the process was killed): a sum of those is no figure of
  // the cycle, so that all are nullopt.
  bool is_partial = false;
};
[[nodiscard]] DeviceFigures DeviceFiguresOf(const nlohmann::ordered_json& summary);
// "1.20 ms", "partial", "-" where there is no device data.
[[nodiscard]] std::string FigureText(const std::optional<int64_t>& ns, bool is_partial);

// [{run cycle incarnation ranks slowest steps hosts readings}], of the runs that have at least two
// sessions: one entry per run and cycle index; where ranks were restarted, one for each set of
// processes that ran side by side (rank_groups.h). `summaries`: stepagent.summary/1.
[[nodiscard]] nlohmann::ordered_json CompareRanks(
    std::span<const nlohmann::ordered_json* const> summaries);

// One entry of it for a person, at most 100 columns. `top` steps; 0 shows all.
[[nodiscard]] std::string RanksText(const nlohmann::ordered_json& compared, size_t top);
// "", or of several ", before a restart (1 of 2)".
[[nodiscard]] std::string IncarnationText(const nlohmann::ordered_json& compared);
// Its table of ranks and the readings' observations only.
[[nodiscard]] std::string RankRowsText(const nlohmann::ordered_json& compared);

}  // namespace stepagent::analysis
