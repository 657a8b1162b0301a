// What one record costs the application's thread: launches, calls seen through callbacks, NVTX.
//
// Each row has the bare ring and, where there is one, a peer beside ours, in one process and with
// repetitions interleaved, so that a ratio is of one moment. A body runs in bursts that fit the
// ring; between them the clock stands and the rings are emptied by hand, as cheaply as a drainer
// that polls.
#include <benchmark/benchmark.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <nvtx3/nvToolsExt.h>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/cupti/callback_catalog.h"
#include "agent/cupti/callback_entry.h"
#include "agent/nvtx/nvtx_entry.h"
#include "tests/bench/support/bare_ring.h"
#include "tests/bench/support/hot_paths.h"
#include "tests/bench/support/measure.h"
#ifdef STEPAGENT_BENCH_LTTNG
#include "tests/bench/support/lttng_burst.h"
#endif

namespace stepagent::bench {
namespace {

constexpr uint32_t kBurst = 3000;  // two records each fit a ring of 8192

void EmptyRings() {
  core::RingRegistry::ForEach([](core::ThreadRing* ring) {
    // Others' rings are emptied by their own threads.
    if (ring != core::RingRegistry::Local()) return;
    for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
      ring->ring.Consume(span.count);
    }
  });
  if (t_bare_ring != nullptr) t_bare_ring->Empty();
}

// `body(i)` in bursts, `bits` set meanwhile.
template <typename Body>
void Bursts(benchmark::State& state, uint32_t bits, Body&& body) {
  Pin(static_cast<unsigned>(state.thread_index()));
  MakeBareRing();
  if (state.thread_index() == 0) core::g_words->bits.store(bits);
  (void)core::RingRegistry::Local();
  uint32_t number = 0;
  while (state.KeepRunningBatch(kBurst)) {
    for (uint32_t i = 0; i < kBurst; ++i) body(number++);
    state.PauseTiming();
    EmptyRings();
    state.ResumeTiming();
  }
}

void LaunchBare(benchmark::State& state) {
  Bursts(state, 0, [](uint32_t i) { BarePush(i); });
}
void LaunchOurs(benchmark::State& state) {
  Bursts(state, core::kBitCalls, [](uint32_t i) { AppendLaunch(i); });
}

void CallbackBare(benchmark::State& state) {
  Bursts(state, 0, [](uint32_t i) {
    uint64_t begin = BareTicks();
    benchmark::DoNotOptimize(begin);
    BarePush(i);
  });
}
void CallbackOurs(benchmark::State& state) {
  Bursts(state, core::kBitCalls, [](uint32_t i) { EnterAndExitLaunch(i); });
}

void NvtxNoTool(benchmark::State& state) {
  Bursts(state, 0, [](uint32_t) { UntouchedPair("forward"); });
}
void NvtxIdle(benchmark::State& state) {
  nvtx::SetStepMatch({});
  Bursts(state, 0, [](uint32_t) { Pair("forward"); });
}
void NvtxIdleWithStep(benchmark::State& state) {
  nvtx::SetStepMatch({.kind = nvtx::StepMatch::Kind::kExact, .name = "train_step"});
  Bursts(state, core::kBitStepSource, [](uint32_t) { Pair("forward"); });
}
void NvtxBare(benchmark::State& state) {
  Bursts(state, 0, [](uint32_t i) {
    BarePush(i);
    BarePush(i);
  });
}
void NvtxRecorded(benchmark::State& state) {
  nvtx::SetStepMatch({});
  Bursts(state, core::kBitRanges, [](uint32_t) { Pair("forward"); });
}
void NvtxRecordedLong(benchmark::State& state) {
  nvtx::SetStepMatch({});
  Bursts(state, core::kBitRanges, [](uint32_t) { Pair("autograd::engine::evaluate_function"); });
}
void NvtxRecordedRegistered(benchmark::State& state) {
  nvtx::SetStepMatch({});
  Bursts(state, core::kBitRanges, [](uint32_t) { RegisteredPair(); });
}

#ifdef STEPAGENT_BENCH_LTTNG
// Events go to the consumer daemon; the session blocks instead of discarding.
void LaunchLttng(benchmark::State& state) {
  Pin(static_cast<unsigned>(state.thread_index()));
  uint32_t number = 0;
  while (state.KeepRunningBatch(kBurst)) {
    StepagentLttngBurst(number, kBurst);
    number += kBurst;
    state.PauseTiming();
    state.ResumeTiming();
  }
}
BENCHMARK(LaunchLttng)->Name("launch_record/lttng");
BENCHMARK(LaunchLttng)->Name("launch_record_2_threads/lttng")->Threads(2);
#endif

BENCHMARK(LaunchBare)->Name("launch_record/bare");
BENCHMARK(LaunchOurs)->Name("launch_record/ours");
BENCHMARK(LaunchBare)->Name("launch_record_2_threads/bare")->Threads(2);
BENCHMARK(LaunchOurs)->Name("launch_record_2_threads/ours")->Threads(2);
BENCHMARK(CallbackBare)->Name("launch_callbacks/bare");
BENCHMARK(CallbackOurs)->Name("launch_callbacks/ours");
BENCHMARK(NvtxNoTool)->Name("nvtx_idle/no_tool");
BENCHMARK(NvtxIdle)->Name("nvtx_idle/ours");
BENCHMARK(NvtxIdleWithStep)->Name("nvtx_idle/ours_with_step_source");
BENCHMARK(NvtxBare)->Name("nvtx_recorded/bare");
BENCHMARK(NvtxRecorded)->Name("nvtx_recorded/ours");
BENCHMARK(NvtxRecordedLong)->Name("nvtx_recorded/ours_34_characters");
BENCHMARK(NvtxRecordedRegistered)->Name("nvtx_recorded/ours_registered");

}  // namespace
}  // namespace stepagent::bench

int main(int argc, char** argv) {
  if (!stepagent::bench::SetUpHotPaths()) return 1;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
