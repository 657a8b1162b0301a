// HOT PATH A: runs inside the application's CUDA calls. No lock, allocation, log, throw or wait; no
// system call but one gettid on a thread's first call. One TLS access.
#include "agent/cupti/api_call_handler.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/record.h"
#include "agent/core/ring_registry.h"
#include "agent/cupti/callback_catalog.h"

namespace stepagent::cupti {
namespace {

using core::CallClass;
using core::HostClock;
using core::RecordKind;

// 2048 threads that make CUDA calls at once; 128 KiB, touched as used.
constexpr uint32_t kCells = 2048;
// One callback in 63 is timed. Odd, so that enters and exits take turns, also in fours. In each
// epoch a thread's first samples lie closer: a cycle of some hundred callbacks has more than three
// of them.
constexpr uint8_t kSampleEvery = 63, kSampleEveryAtFirst = 7, kFirstSamples = 32;

// A longer sample is one in which the thread lost its processor, which it would have lost
// elsewhere: one of those in a second would be a hundred times all that the callbacks took.
constexpr int64_t kLongestSampleNs = 100'000;

constexpr uint8_t kRecorded = 1;  // recording was on at the enter
constexpr uint8_t kCaptured = 2;

// Everything but `tid` is written by the owner; atomics because the thread `stepagent` looks in.
struct alignas(64) Cell {
  uint64_t begin_ticks = 0;
  uint32_t correlation = 0;
  uint16_t cbid = 0;
  uint8_t until_sample = kSampleEveryAtFirst;
  uint8_t first_samples = 0;  // taken in that epoch
  uint32_t sampled_epoch = 0;
  std::atomic<uint8_t> flags{0};
  std::atomic<uint32_t> domain{0};  // 0: not in a call
  std::atomic<uint32_t> epoch{0};
  std::atomic<uint64_t> callbacks{0};
  std::atomic<uint64_t> sampled_ticks{0};
  std::atomic<uint64_t> samples{0};
  std::atomic<uint32_t> tid{0};  // 0: free
};
static_assert(sizeof(Cell) == 64);

constinit Cell g_cells[kCells];
// Where the next search for a free cell begins.
constinit std::atomic<uint32_t> g_next_cell{0};
constinit std::atomic<uint32_t> g_epoch{1};
constinit std::atomic<uint64_t> g_no_cell{0};
constinit std::atomic<uint64_t> g_longest_sample{UINT64_MAX};  // kLongestSampleNs in ticks
constinit std::atomic<uint64_t> g_clock_ticks{0};  // what a sample holds of its own taking
constinit std::atomic<ApiCallHandler::StackSource> g_stack_source{nullptr};
// Counters of cells that were freed.
constinit std::atomic<uint64_t> g_past_callbacks{0}, g_past_ticks{0}, g_past_samples{0};

constinit thread_local Cell* t_cell = nullptr;

void Add(std::atomic<uint64_t>* counter, uint64_t amount) noexcept {
  // One writer: no locked instruction.
  counter->store(counter->load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

// Cells beyond have never been claimed, and their memory need not be touched.
uint32_t CellsInUse() noexcept {
  return std::min(g_next_cell.load(std::memory_order_relaxed), kCells);
}

[[gnu::noinline, gnu::cold]] Cell* ClaimCell() noexcept {
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  const uint32_t start = g_next_cell.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kCells; ++i) {
    Cell& cell = g_cells[(start + i) % kCells];
    uint32_t nobody = 0;
    if (cell.tid.load(std::memory_order_relaxed) == 0 &&
        cell.tid.compare_exchange_strong(nobody, tid, std::memory_order_acquire)) {
      return t_cell = &cell;
    }
  }
  return nullptr;
}

// Counts the callback; true when this one is to be timed.
bool CountCallback(Cell* cell) noexcept {
  Add(&cell->callbacks, 1);
  return --cell->until_sample == 0;
}

uint8_t NextSample(Cell* cell) noexcept {
  const uint32_t epoch = g_epoch.load(std::memory_order_relaxed);
  if (cell->sampled_epoch != epoch) {
    cell->sampled_epoch = epoch;
    cell->first_samples = 0;
  }
  if (cell->first_samples == kFirstSamples) return kSampleEvery;
  ++cell->first_samples;
  return kSampleEveryAtFirst;
}

// The very code that the others run, and no branch beside it: one on whether to read the clock
// again is guessed wrong each time that it counts, which was a third of what was measured.
template <typename Body>
[[gnu::noinline, gnu::cold]] void TimeCallback(Cell* cell, Body body) noexcept {
  cell->until_sample = NextSample(cell);
  const uint64_t begin_ticks = HostClock::TicksBetween();
  body();
  const uint64_t ticks = HostClock::TicksBetween() - begin_ticks;
  if (ticks > g_longest_sample.load(std::memory_order_relaxed)) return;
  Add(&cell->sampled_ticks, ticks - std::min(ticks, g_clock_ticks.load(std::memory_order_relaxed)));
  Add(&cell->samples, 1);
}

// A driver call inside a runtime call belongs to it: one row per outermost call. Nothing else nests
// (functions of one domain do not call each other through the public entry), so any other call that
// is still open has lost its exit and is replaced.
bool IsNested(const Cell& cell, uint32_t domain) noexcept {
  return domain == kDomainDriver && cell.domain.load(std::memory_order_relaxed) == kDomainRuntime &&
         cell.epoch.load(std::memory_order_relaxed) == g_epoch.load(std::memory_order_relaxed);
}

uint32_t StackOf(CallClass call_class) noexcept {
  if (call_class != CallClass::kLaunch && call_class != CallClass::kGraphLaunch) return 0;
  // acquire pairs with the release in SetStackSource.
  const auto source = g_stack_source.load(std::memory_order_acquire);
  return source != nullptr ? source() : 0;
}

int32_t ReturnValue(const CUpti_CallbackData& call) noexcept {
  // cudaError_t or CUresult, both enumerations of int size.
  return call.functionReturnValue != nullptr
             ? *static_cast<const int32_t*>(call.functionReturnValue)
             : 0;
}

// What a sample holds of its own taking: one reading of the clock, nearly half of a callback.
uint64_t TicksOfATick() noexcept {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 16; ++i) {
    const uint64_t before = HostClock::TicksBetween();
    least = std::min(least, HostClock::TicksBetween() - before);
  }
  return least;
}

// A copy or set that was asked for nothing. The structure is CUPTI's own and good until the exit.
bool IsEmpty(const CallSite& site, const CUpti_CallbackData& call) noexcept {
  if (site.size.first == 0 || call.functionParams == nullptr) return false;
  const auto* params = static_cast<const char*>(call.functionParams);
  const auto at = [params](uint8_t offset) noexcept {
    size_t value;
    __builtin_memcpy(&value, params + offset, sizeof value);
    return value;
  };
  return at(site.size.first) == 0 || (site.size.second != 0 && at(site.size.second) == 0);
}

void AppendCall(const Cell& cell, uint32_t domain, const CUpti_CallbackData& call,
                uint64_t end_ticks) noexcept {
  const CallSite& site = CallbackCatalog::Site(domain, cell.cbid);
  const int32_t result = ReturnValue(call);
  uint32_t flags = result != 0 ? core::kCallFailed : 0;
  if ((cell.flags.load(std::memory_order_relaxed) & kCaptured) != 0) flags |= core::kCallCaptured;
  if (IsEmpty(site, call)) flags |= core::kCallEmpty;
  // Before the record is begun: it takes long, and a handler that interrupts it may append its own.
  const uint32_t stack = StackOf(site.call_class);
  core::Append(RecordKind::kCall, site.call_class, [&](core::Record* record) noexcept {
    record->begin_ticks = cell.begin_ticks;
    record->end_ticks = end_ticks;
    record->name = site.name;
    record->domain = domain;
    record->correlation = cell.correlation;
    record->category = flags;  // a call's flags travel here
    record->color = 0;
    record->return_value = result;
    record->stack = stack;
    record->cbid = cell.cbid;
  });
}

// Not inlined, nor the next: a callback that is timed runs this same code, warm (TimeCallback).
[[gnu::noinline]] void BeginCall(Cell* cell, uint32_t domain, uint32_t cbid, const void* data,
                                 bool is_recording) noexcept {
  if (IsNested(*cell, domain) || cbid >= CallbackCatalog::kMaxCallbackId) return;
  // Also when recording is off: a call that is open when it comes on is not to have its nested
  // driver call taken for an outermost one.
  if (is_recording) cell->begin_ticks = HostClock::Ticks();
  cell->correlation = static_cast<const CUpti_CallbackData*>(data)->correlationId;
  cell->cbid = static_cast<uint16_t>(cbid);
  cell->flags.store(is_recording ? kRecorded : 0, std::memory_order_relaxed);
  cell->epoch.store(g_epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
  cell->domain.store(domain, std::memory_order_release);  // pairs with InFlight
}

[[gnu::noinline]] void EndCall(Cell* cell, uint32_t domain, uint32_t cbid,
                               const void* data) noexcept {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  // Correlation ids are unique in the process: only the exit of the very call that entered matches.
  if (cell->domain.load(std::memory_order_relaxed) != domain || cell->cbid != cbid ||
      cell->correlation != call.correlationId) {
    return;
  }
  if ((cell->flags.load(std::memory_order_relaxed) & kRecorded) != 0) {
    AppendCall(*cell, domain, call, HostClock::Ticks());
  }
  cell->domain.store(0, std::memory_order_release);  // pairs with InFlight: the record is out
}

}  // namespace

void ApiCallHandler::Enter(uint32_t domain, uint32_t cbid, const void* data) noexcept {
  const uint32_t bits = core::g_words->bits.load(std::memory_order_relaxed);
  Cell* cell = t_cell;
  const bool is_recording = (bits & core::kBitCalls) != 0;
  if (cell == nullptr) [[unlikely]] {
    if (!is_recording) return;
    cell = ClaimCell();
    if (cell == nullptr) {
      g_no_cell.fetch_add(1, std::memory_order_relaxed);
      if (cbid < CallbackCatalog::kMaxCallbackId) {
        core::RingRegistry::CountNoRing(RecordKind::kCall,
                                        CallbackCatalog::Site(domain, cbid).call_class);
      }
      return;
    }
  }
  if (CountCallback(cell)) [[unlikely]] {
    TimeCallback(cell, [=]() noexcept { BeginCall(cell, domain, cbid, data, is_recording); });
  } else {
    BeginCall(cell, domain, cbid, data, is_recording);
  }
}

void ApiCallHandler::Exit(uint32_t domain, uint32_t cbid, const void* data) noexcept {
  Cell* cell = t_cell;
  if (cell == nullptr) [[unlikely]]
    return;
  if (CountCallback(cell)) [[unlikely]] {
    TimeCallback(cell, [=]() noexcept { EndCall(cell, domain, cbid, data); });
  } else {
    EndCall(cell, domain, cbid, data);
  }
}

void ApiCallHandler::MarkCaptured() noexcept {
  Cell* cell = t_cell;
  if (cell == nullptr || cell->domain.load(std::memory_order_relaxed) == 0) return;
  cell->flags.store(cell->flags.load(std::memory_order_relaxed) | kCaptured,
                    std::memory_order_relaxed);
}

void ApiCallHandler::NewEpoch() noexcept {
  g_longest_sample.store(HostClock::ToTicks(kLongestSampleNs) - HostClock::ToTicks(0),
                         std::memory_order_relaxed);
  g_clock_ticks.store(TicksOfATick(), std::memory_order_relaxed);
  g_epoch.fetch_add(1, std::memory_order_relaxed);
}

uint32_t ApiCallHandler::InFlight() noexcept {
  uint32_t count = 0;
  const uint32_t epoch = g_epoch.load(std::memory_order_relaxed);
  for (uint32_t i = 0, end = CellsInUse(); i < end; ++i) {
    const Cell& cell = g_cells[i];
    if (cell.domain.load(std::memory_order_acquire) != 0 &&  // pairs with Enter and Exit
        cell.epoch.load(std::memory_order_relaxed) == epoch &&
        (cell.flags.load(std::memory_order_relaxed) & kRecorded) != 0) {
      ++count;
    }
  }
  return count;
}

void ApiCallHandler::Sweep() noexcept {
  const pid_t process = getpid();
  for (uint32_t i = 0, end = CellsInUse(); i < end; ++i) {
    Cell& cell = g_cells[i];
    const uint32_t tid = cell.tid.load(std::memory_order_relaxed);
    if (tid == 0) continue;
    // Signal 0 asks only whether the thread is there.
    if (syscall(SYS_tgkill, process, static_cast<pid_t>(tid), 0) == 0 || errno != ESRCH) continue;
    g_past_callbacks.fetch_add(cell.callbacks.exchange(0), std::memory_order_relaxed);
    g_past_ticks.fetch_add(cell.sampled_ticks.exchange(0), std::memory_order_relaxed);
    g_past_samples.fetch_add(cell.samples.exchange(0), std::memory_order_relaxed);
    cell.domain.store(0, std::memory_order_relaxed);
    cell.until_sample = kSampleEveryAtFirst;
    cell.tid.store(0, std::memory_order_release);  // pairs with ClaimCell
  }
}

void ApiCallHandler::SetStackSource(StackSource source) noexcept {
  g_stack_source.store(source, std::memory_order_release);  // pairs with StackOf
}

ApiCallHandler::Totals ApiCallHandler::totals() noexcept {
  Totals totals;
  totals.no_cell = g_no_cell.load(std::memory_order_relaxed);
  totals.time = {.callbacks = g_past_callbacks.load(std::memory_order_relaxed),
                 .samples = g_past_samples.load(std::memory_order_relaxed),
                 .ticks = g_past_ticks.load(std::memory_order_relaxed)};
  for (uint32_t i = 0, end = CellsInUse(); i < end; ++i) {
    const Cell& cell = g_cells[i];
    totals.time.callbacks += cell.callbacks.load(std::memory_order_relaxed);
    totals.time.samples += cell.samples.load(std::memory_order_relaxed);
    totals.time.ticks += cell.sampled_ticks.load(std::memory_order_relaxed);
  }
  return totals;
}

void ApiCallHandler::ForgetAll() noexcept {
  for (uint32_t i = 0, end = CellsInUse(); i < end; ++i) {
    Cell& cell = g_cells[i];
    cell.tid.store(0, std::memory_order_relaxed);
    cell.domain.store(0, std::memory_order_relaxed);
    cell.callbacks.store(0, std::memory_order_relaxed);
    cell.sampled_ticks.store(0, std::memory_order_relaxed);
    cell.samples.store(0, std::memory_order_relaxed);
    cell.until_sample = kSampleEveryAtFirst;
  }
  g_past_callbacks.store(0, std::memory_order_relaxed);
  g_past_ticks.store(0, std::memory_order_relaxed);
  g_past_samples.store(0, std::memory_order_relaxed);
  g_no_cell.store(0, std::memory_order_relaxed);
  t_cell = nullptr;  // the child's one thread is this one
}

}  // namespace stepagent::cupti
