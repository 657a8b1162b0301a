// A tool as NVTX loads one through NVTX_INJECTION64_PATH: our handlers, recording from the start.
#include <cstdint>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/nvtx/nvtx_entry.h"

#define TOOL_EXPORT extern "C" __attribute__((visibility("default")))

TOOL_EXPORT int InitializeInjectionNvtx2(void* get_export_table) {
  using namespace stepagent;  // NOLINT: a library of one function
  static const bool ready = [] {
    core::HostClock::Start();
    if (!core::MapPhaseWords()) return false;
    core::Gate().Configure({});
    return core::Gate().ArmWhole(core::HostClock::Ticks()) == core::StepGate::Verdict::kOk;
  }();
  return ready ? nvtx::Attach(get_export_table) : 0;
}

// Records appended so far, and objects attached: what the client checks against.
TOOL_EXPORT uint64_t ToolRecords() { return stepagent::core::RingRegistry::totals().produced_nvtx; }
TOOL_EXPORT uint64_t ToolAttached() { return stepagent::nvtx::counters().used; }
