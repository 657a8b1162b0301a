#include <cstring>
#include <string>

#include "common/settings.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

thread_local int t_buffer_callbacks = 0;
std::atomic<int> g_last_error{CUPTI_SUCCESS};

void CheckReentry(const EntryPoint& entry) {
  if (t_buffer_callbacks == 0 || entry.is_pure) return;
  if (SettingText("REENTRY", "abort") == "allow") return;
  Violation("%s called from a buffer callback: the real library would deadlock", entry.name);
}

std::atomic<uint64_t>& CallCounter(EntryPoint& entry) {
  auto* counter = entry.counter.load(std::memory_order_relaxed);
  if (counter == nullptr) {
    counter = &Counter((std::string("cupti.") + entry.name).c_str());
    entry.counter.store(counter, std::memory_order_relaxed);
  }
  return *counter;
}

}  // namespace

bool EnterFunction(EntryPoint& entry, int* code) {
  static std::atomic<uint64_t>& all = Counter("cupti.calls");
  CheckReentry(entry);
  Add(CallCounter(entry));
  if (!entry.is_pure) Add(all);
  WriteCountersAtExit();
  return HasFaults() && FaultFor(entry.name, code);
}

void LeaveFunction(const EntryPoint& entry, int code) {
  // Pure functions are called once per record and say nothing about a tool's manners.
  if (HasCallLog() && !entry.is_pure) LogCall(entry.name, code);
  if (code != CUPTI_SUCCESS && strcmp(entry.name, "cuptiGetLastError") != 0 && !entry.is_pure) {
    RememberError(static_cast<CUptiResult>(code));
  }
}

void RememberError(CUptiResult result) {
  // 13.0 forgets refusals: measured, its last error stays 0 after them.
  if (!ThePersonality().remembers_errors && result == ThePersonality().unusable_code) return;
  g_last_error.store(result, std::memory_order_relaxed);
}

CUptiResult TakeLastError() {
  return static_cast<CUptiResult>(g_last_error.exchange(CUPTI_SUCCESS, std::memory_order_relaxed));
}

BufferCallbackScope::BufferCallbackScope() { ++t_buffer_callbacks; }
BufferCallbackScope::~BufferCallbackScope() { --t_buffer_callbacks; }

}  // namespace stepagent::sim
