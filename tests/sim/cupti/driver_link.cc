// Finds the simulated driver, as the real library finds its driver: by soname, on first need.
#include <dlfcn.h>

#include <mutex>

#include "common/settings.h"
#include "cupti/personality.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

std::atomic<const DriverTable*> g_driver{nullptr};
std::atomic<int> g_slot{-1};

const ToolOps kOps = {
    .api_enter = OnApiEnter,
    .api_exit = OnApiExit,
    .device_op = OnDeviceOp,
    .graph_launch = OnGraphLaunch,
    .sync = OnSync,
    .memory = OnMemory,
    .event_recorded = OnEventRecorded,
    .context_created = OnContextCreated,
    .stream_created = OnStreamCreated,
    .resource = OnResource,
    .synchronized = OnSynchronized,
    .counter = CounterValue,
};

DriverState Attach() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return DriverState::kNoDriver;
  auto table_of = reinterpret_cast<DriverTableFn>(dlsym(library, kDriverTableSymbol));
  const DriverTable* table = table_of == nullptr ? nullptr : table_of(kTableVersion);
  if (table == nullptr) return DriverState::kForeignDriver;
  if (table->usable() != 0) return DriverState::kUnusable;
  // CUPTI newer than the driver: the real one refuses too.
  const int64_t oldest = SettingInt("CUPTI_NEEDS_DRIVER", 0);
  const bool is_newer = ThePersonality().api_version >= SettingInt("CUPTI_NEEDS_FROM_API", 0);
  if (is_newer && oldest > SettingInt("DRIVER_VERSION", 13000)) return DriverState::kUnusable;
  const int slot = table->attach(&kOps);
  if (slot < 0) Violation("more than %d copies of libcupti attached", kMaxTools);
  g_slot.store(slot, std::memory_order_relaxed);
  // Pairs with the acquire in Driver(): whoever sees the table sees the slot.
  g_driver.store(table, std::memory_order_release);
  return DriverState::kReady;
}

}  // namespace

DriverState Link() {
  static auto* mutex = new std::mutex;
  if (Driver() != nullptr) return DriverState::kReady;
  const std::lock_guard lock(*mutex);
  return Driver() != nullptr ? DriverState::kReady : Attach();
}

const DriverTable* Driver() { return g_driver.load(std::memory_order_acquire); }

int ToolSlot() { return g_slot.load(std::memory_order_relaxed); }

CUptiResult RequireDriver() {
  if (Link() == DriverState::kReady) return CUPTI_SUCCESS;
  return static_cast<CUptiResult>(ThePersonality().unusable_code);
}

}  // namespace stepagent::sim
