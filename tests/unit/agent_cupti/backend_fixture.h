#pragma once
// The simulated driver and its context, made once per process.
//
// Thread rule: made by the first test. Failure rule: `is_usable` false where there is none.
#include <cstdint>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/cupti/cupti_backend.h"
#include "agent/cupti/kinds.h"
#include "tests/unit/agent_cupti/sim_driver.h"

namespace stepagent::cupti {

inline constexpr uint32_t kAll = ActivityMask(kActivityKernel) | ActivityMask(kActivityMemcpy) |
                          ActivityMask(kActivityMemset) | ActivityMask(kActivityLaunch) |
                          ActivityMask(kActivitySync) | ActivityMask(kActivityOverhead) |
                          ActivityMask(kActivityMemory);

struct Fixture {
  SimDriver cuda;
  CUcontext context = nullptr;
  CUfunction kernel = nullptr;
  CUdeviceptr memory = 0;
  bool is_usable = false;
  CUresult init_result = CUDA_ERROR_UNKNOWN;
};
inline Fixture& TheFixture() {
  static auto* fixture = [] {
    auto* made = new Fixture();
    if (!core::NameTable::Init() || !core::MapPhaseWords() || !made->cuda.Load()) return made;
    core::HostClock::Start();
    made->init_result = made->cuda.Init(0);
    Backend().NoteCuda();
    if (made->init_result != CUDA_SUCCESS) return made;
    made->is_usable = made->cuda.PrimaryCtxRetain(&made->context, 0) == CUDA_SUCCESS &&
                      made->cuda.CtxSetCurrent(made->context) == CUDA_SUCCESS &&
                      made->cuda.MemAlloc(&made->memory, 4096) == CUDA_SUCCESS;
    made->kernel = static_cast<CUfunction>(made->cuda.RegisterKernel("_Z4gemmPfS_", 50000));
    return made;
  }();
  return *fixture;
}

}  // namespace stepagent::cupti
