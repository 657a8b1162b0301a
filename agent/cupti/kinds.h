#pragma once
// The activity kinds we use, by CUPTI's numbers, and what each one serves.
//
// Purpose: one table from which enabling, calibration, decoding and loss accounting derive. Numbers
// instead of the vendor's enumerators: the headers at hand may be older than the library met.
// Thread rule: constants. Failure rule: none.
#include <cstdint>

namespace stepagent::cupti {

enum : uint32_t {
  kKindMemcpy = 1,
  kKindMemset = 2,
  kKindKernel = 3,
  kKindDriver = 4,
  kKindRuntime = 5,
  kKindDevice = 8,
  kKindContext = 9,
  kKindConcurrentKernel = 10,
  kKindOverhead = 17,
  kKindMemcpyPeer = 22,
  kKindCudaEvent = 36,
  kKindStream = 37,
  kKindSync = 38,
  kKindExternalCorrelation = 39,
  kKindInternalLaunch = 48,
  kKindMemory2 = 49,
  kKindMemoryPool = 50,
  kKindGraphTrace = 51,
  kKindLimit = 64,  // kinds from here on are not looked at
};

// The numbers of batch.proto's Activity.
enum : uint32_t {
  kActivityNone = 0,
  kActivityKernel = 1,
  kActivityMemcpy = 2,
  kActivityMemset = 3,
  kActivityLaunch = 4,
  kActivitySync = 5,
  kActivityNvtx = 6,
  kActivityMemory = 7,
  kActivityOverhead = 8,
  kActivityCount = 9,
};
[[nodiscard]] constexpr uint32_t ActivityMask(uint32_t activity) { return 1U << activity; }

enum class KindRole : uint8_t {
  kMain,        // the activity is on when this kind is
  kExtra,       // belongs to the activity; the activity is on without it, with the error told
  kGraphLevel,  // one record per graph launch in place of its nodes
  kInventory,   // devices, contexts, streams: dumped, not asked for by name
};

struct KindSpec {
  uint32_t kind;
  uint32_t activity;
  KindRole role;
  const char* name;
  uint16_t minimum_bytes;  // the oldest layout whose fields lie where ours are read
  uint16_t newest_bytes;   // the longest layout known, measured on CUPTI 11.2 to 13.5
};

// In the order of enabling. CONCURRENT_KERNEL and never KERNEL: that one serialises the device.
inline constexpr KindSpec kKinds[] = {
    {kKindDevice, kActivityNone, KindRole::kInventory, "DEVICE", 144, 192},
    {kKindContext, kActivityNone, KindRole::kInventory, "CONTEXT", 16, 40},
    {kKindStream, kActivityNone, KindRole::kInventory, "STREAM", 24, 24},
    {kKindConcurrentKernel, kActivityKernel, KindRole::kMain, "CONCURRENT_KERNEL", 144, 248},
    {kKindGraphTrace, kActivityKernel, KindRole::kGraphLevel, "GRAPH_TRACE", 48, 56},
    {kKindMemcpy, kActivityMemcpy, KindRole::kMain, "MEMCPY", 64, 112},
    {kKindMemcpyPeer, kActivityMemcpy, KindRole::kExtra, "MEMCPY2", 72, 96},
    {kKindMemset, kActivityMemset, KindRole::kMain, "MEMSET", 64, 104},
    {kKindSync, kActivitySync, KindRole::kMain, "SYNCHRONIZATION", 40, 56},
    {kKindOverhead, kActivityOverhead, KindRole::kMain, "OVERHEAD", 40, 56},
    {kKindMemory2, kActivityMemory, KindRole::kMain, "MEMORY2", 112, 128},
};
// Decoded like CONCURRENT_KERNEL when another client switched it on; never enabled by us.
inline constexpr KindSpec kSerialKernel = {
    kKindKernel, kActivityKernel, KindRole::kExtra, "KERNEL", 144, 248};

}  // namespace stepagent::cupti
