#pragma once
// The words Kineto uses for CUPTI's numbers.
//
// Purpose: one table each; readers of the Chrome file and of the summary match on these words.
// Thread rule: free functions over constant tables.
// Failure rule: an unknown number gives "Unknown", never an out-of-range read.
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepagent::writers {

[[nodiscard]] std::string_view CopyKindName(uint8_t copy_kind);      // HtoD DtoH …
[[nodiscard]] std::string_view MemoryKindName(uint8_t memory_kind);  // Pageable Pinned Device …
[[nodiscard]] std::string_view SyncTypeName(uint8_t type);           // Stream Sync …
[[nodiscard]] std::string_view OverheadName(uint32_t kind);          // Buffer Flush …
// The other way round; nullopt: none has that name.
[[nodiscard]] std::optional<uint32_t> OverheadKind(std::string_view name);
[[nodiscard]] std::optional<uint8_t> SyncType(std::string_view name);
// cudaLaunchKernel_v7000 -> cudaLaunchKernel; cuMemAlloc_v2 stays.
[[nodiscard]] std::string_view WithoutVersionSuffix(std::string_view api_name);
// The number of "ProfilerStep#<n>", for exactly that text.
[[nodiscard]] std::optional<uint64_t> ProfilerStepNumber(std::string_view text);

}  // namespace stepagent::writers
