#include "collector/writers/kineto_names.h"

#include <array>
#include <charconv>

namespace stepagent::writers {
namespace {

template <size_t N>
std::string_view Lookup(const std::array<std::string_view, N>& table, uint32_t index) {
  return index < N && !table[index].empty() ? table[index] : std::string_view("Unknown");
}

constexpr std::array<std::string_view, 11> kCopyKinds = {
    "", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
constexpr std::array<std::string_view, 8> kMemoryKinds = {
    "", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
constexpr std::array<std::string_view, 5> kSyncTypes = {"", "Event Sync", "Stream Wait Event",
                                                        "Stream Sync", "Context Sync"};
// CUPTI numbers overheads 1 (driver compiler) and then n << 16.
constexpr std::array<std::string_view, 9> kOverheads = {"",
                                                        "Buffer Flush",
                                                        "Instrumentation",
                                                        "Resource",
                                                        "Runtime Triggered Module Loading",
                                                        "Lazy Function Loading",
                                                        "Command Buffer Full",
                                                        "Activity Buffer Request",
                                                        "UVM Activity Init"};

}  // namespace

std::string_view CopyKindName(uint8_t copy_kind) { return Lookup(kCopyKinds, copy_kind); }
std::string_view MemoryKindName(uint8_t memory_kind) { return Lookup(kMemoryKinds, memory_kind); }
std::string_view SyncTypeName(uint8_t type) { return Lookup(kSyncTypes, type); }

std::string_view OverheadName(uint32_t kind) {
  if (kind == 1) return "Driver Compiler";
  return Lookup(kOverheads, kind >> 16);
}

std::optional<uint32_t> OverheadKind(std::string_view name) {
  if (name == OverheadName(1)) return 1;
  for (uint32_t i = 1; i < kOverheads.size(); ++i) {
    if (kOverheads[i] == name) return i << 16;
  }
  return std::nullopt;
}

std::optional<uint8_t> SyncType(std::string_view name) {
  for (uint8_t i = 1; i < kSyncTypes.size(); ++i) {
    if (kSyncTypes[i] == name) return i;
  }
  return std::nullopt;
}

std::string_view WithoutVersionSuffix(std::string_view api_name) {
  const size_t at = api_name.rfind("_v");
  if (at == std::string_view::npos || api_name.size() - at < 2 + 4) return api_name;
  for (const char c : api_name.substr(at + 2)) {
    if (c < '0' || c > '9') return api_name;
  }
  return api_name.substr(0, at);
}

std::optional<uint64_t> ProfilerStepNumber(std::string_view text) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  if (!text.starts_with(kPrefix) || text.size() == kPrefix.size()) return std::nullopt;
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [ptr, error] = std::from_chars(text.data() + kPrefix.size(), end, number);
  if (error != std::errc() || ptr != end) return std::nullopt;
  return number;
}

}  // namespace stepagent::writers
