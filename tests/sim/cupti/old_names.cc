// Runtime functions whose callback names were others before 13.0, as the vendor's 11.8, 12.4 and
// 12.6 answer; all driver names are the same.
#include "cupti/names.h"

namespace stepagent::sim {
namespace {

struct OldName {
  uint32_t cbid;
  const char* name;
  uint32_t first_api_version = 0;
  uint32_t last_api_version = 129999;
};
constexpr uint32_t k12_4 = 22;
constexpr uint32_t k12_6 = 24;
constexpr OldName kOldNames[] = {
    {393, "cudaSignalExternalSemaphoresAsync_v2_v11020"},
    {394, "cudaSignalExternalSemaphoresAsync_v2_ptsz_v11020"},
    {395, "cudaWaitExternalSemaphoresAsync_v2_v11020"},
    {396, "cudaWaitExternalSemaphoresAsync_v2_ptsz_v11020"},
    {440, "cudaGetDeviceProperties_v2_v12000"},
    {448, "cudaMemAdvise_v2_v12020"},
    {449, "cudaMemPrefetchAsync_v2_v12020"},
    {450, "cudaMemPrefetchAsync_v2_ptsz_v12020"},
    {455, "cudaGraphGetEdges_v2_v12030"},
    {456, "cudaGraphNodeGetDependencies_v2_v12030"},
    {457, "cudaGraphNodeGetDependentNodes_v2_v12030"},
    {458, "cudaGraphAddDependencies_v2_v12030"},
    {459, "cudaGraphRemoveDependencies_v2_v12030"},
    {460, "cudaGraphAddNode_v2_v12030"},
    {461, "cudaStreamGetCaptureInfo_v3_v12030"},
    {462, "cudaStreamGetCaptureInfo_v3_ptsz_v12030"},
    {463, "cudaStreamUpdateCaptureDependencies_v2_v12030"},
    {464, "cudaStreamUpdateCaptureDependencies_v2_ptsz_v12030"},
    // Not public yet when that generation came out.
    {465, "cuda465_v12040", k12_4, k12_4},
    {466, "cuda466_v12040", k12_4, k12_4},
    {470, "cuda470_v12060", k12_6, k12_6},
    {471, "cuda471_v12060", k12_6, k12_6},
    {472, "cuda472_v12060", k12_6, k12_6},
    {473, "cuda473_v12060", k12_6, k12_6},
    {474, "cuda474_v12060", k12_6, k12_6},
    {475, "cuda475_v12060", k12_6, k12_6},
    {476, "cuda476_v12060", k12_6, k12_6},
    {477, "cuda477_v12060", k12_6, k12_6},
    {478, "cuda478_v12060", k12_6, k12_6},
    {479, "cuda479_v12060", k12_6, k12_6},
};

}  // namespace

const char* OldRuntimeFunctionName(uint32_t cbid, uint32_t api_version) {
  for (const OldName& old : kOldNames) {
    if (old.cbid == cbid && api_version >= old.first_api_version &&
        api_version <= old.last_api_version) {
      return old.name;
    }
  }
  return nullptr;
}

}  // namespace stepagent::sim
