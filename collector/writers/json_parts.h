#pragma once
// What manifest.json and summary.json have in common.
//
// Purpose: one place for the parts that both documents show, so that they cannot differ.
// Thread rule: pure. Failure rule: bytes that are no UTF-8 are replaced; what is not known is null.
#include <cstdint>
#include <optional>
#include <string_view>

#include "collector/model/cycle.h"
#include "nlohmann/json.hpp"

namespace stepagent::writers {

using OrderedJson = nlohmann::ordered_json;

[[nodiscard]] OrderedJson TextOrNull(std::string_view bytes);
[[nodiscard]] OrderedJson CountOrNull(const std::optional<uint64_t>& value);
[[nodiscard]] OrderedJson IdOrNull(int32_t id);  // negative: null
// CUPTI's and CUDA's integers, 13000 for 13.0: null where none was found.
[[nodiscard]] OrderedJson VersionOrNull(uint32_t version);

// Who: id run host pid exe title rank rank_source world_size.
[[nodiscard]] OrderedJson SessionHead(const model::SessionInfo& session);
[[nodiscard]] OrderedJson LabelsJson(const model::SessionInfo& session);
[[nodiscard]] OrderedJson VisibleDevicesJson(const model::SessionInfo& session);
// Of one step; null where a trace file does not tell.
[[nodiscard]] OrderedJson StepFlag(const model::Cycle& cycle, bool flag);
// index complete ended reason, of a part which of how many, and where the launcher saw it: signal or exit_status.
[[nodiscard]] OrderedJson CycleHead(const model::Cycle& cycle);
[[nodiscard]] OrderedJson NotesJson(const model::Cycle& cycle);

}  // namespace stepagent::writers
