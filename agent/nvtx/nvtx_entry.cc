#include "agent/nvtx/nvtx_entry.h"

#include <atomic>

#include "agent/core/phase_words.h"
#include "agent/nvtx/event_text.h"
#include "agent/nvtx/handlers.h"
#include "agent/nvtx/seen_ranges.h"
#include "agent/nvtx/step_pattern.h"
#include "agent/nvtx/step_range.h"
#include "agent/nvtx/storage.h"
#include "agent/nvtx/thread_block.h"

namespace stepagent::nvtx {
namespace {

constinit std::atomic<uint64_t> attached{0};

// The module's slots; a size of 0 when it has no table.
Slots SlotsOf(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
  Slots slots{nullptr, 0};
  unsigned int size = 0;
  if (callbacks.GetModuleFunctionTable(module, &slots.table, &size) == 0 ||
      slots.table == nullptr) {
    return slots;
  }
  slots.size = size;
  return slots;
}

void TellVersion(NvtxGetExportTableFunc_t get_table) {
  const auto* info =
      static_cast<const NvtxExportTableVersionInfo*>(get_table(NVTX_ETID_VERSIONINFO));
  if (info != nullptr && info->struct_size >= sizeof *info &&
      info->SetInjectionNvtxVersion != nullptr) {
    info->SetInjectionNvtxVersion(NVTX_VERSION);
  }
}

}  // namespace

int Attach(void* get_export_table) noexcept {
  const auto get_table = reinterpret_cast<NvtxGetExportTableFunc_t>(get_export_table);
  if (get_table == nullptr || !InitStorage()) return 0;
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks ||
      callbacks->GetModuleFunctionTable == nullptr) {
    return 0;
  }
  TellVersion(get_table);
  const Slots core = SlotsOf(*callbacks, NVTX_CB_MODULE_CORE);
  PutCoreRanges(core);
  PutCoreNames(core);
  const Slots core2 = SlotsOf(*callbacks, NVTX_CB_MODULE_CORE2);
  PutCore2Ranges(core2);
  PutCore2Names(core2);
  if (core.size == 0 && core2.size == 0) return 0;
  attached.fetch_add(1, std::memory_order_relaxed);
  return 1;
}

void SetStepMatch(const StepMatch& match) noexcept {
  const bool is_ready = InitStorage();
  StepPattern::Set(is_ready ? match : StepMatch{});
  if (core::g_words->alive.load(std::memory_order_acquire) == 0) return;
  if (StepPattern::Current() != nullptr) {
    core::g_words->bits.fetch_or(core::kBitStepSource, std::memory_order_release);
  } else {
    core::g_words->bits.fetch_and(~core::kBitStepSource, std::memory_order_release);
  }
}

NvtxCounters counters() noexcept {
  NvtxCounters now;
  now.ranges_seen = SeenTotal();
  now.unmatched_ends = UnmatchedEnds();
  now.blocks_exhausted = BlocksExhausted();
  now.used = attached.load(std::memory_order_relaxed);
  return now;
}

uint32_t TopRanges(SeenRange* out, uint32_t room) noexcept { return TopSeen(out, room); }

void ForgetAll() noexcept {
  // The step that this thread's parent process had open is not the child's.
  if (ThreadBlock* block = ExistingBlock(); block != nullptr) block->step_depth = 0;
  ForgetSeen();
  ForgetStepRange();
  ForgetUnmatchedEnds();
  ForgetBlockCounters();
}

void SetReviveHook(void (*hook)()) noexcept { SetReviveHookImpl(hook); }

}  // namespace stepagent::nvtx
