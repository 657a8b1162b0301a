// Counts instructions of the hot paths: run under callgrind by check_instructions.py.
//
// Each path runs kRounds times between two dumps of callgrind's counters, named after it; a path's
// figure is its dump divided by kRounds. The loop around it is counted too (three instructions).
// Without callgrind it does the same and counts nothing.
#include <valgrind/callgrind.h>

#include <cstdint>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/nvtx/nvtx_entry.h"
#include "tests/bench/support/hot_paths.h"

namespace stepagent::bench {
namespace {

constexpr uint32_t kRounds = 2000;  // two records each fit a ring of 8192

void EmptyRings() {
  core::RingRegistry::ForEach([](core::ThreadRing* ring) {
    for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
      ring->ring.Consume(span.count);
    }
  });
}

// Rounds before the count fill what is filled once: TLS, the cell, the name, the hint.
template <typename Body>
[[gnu::noinline]] void Count(const char* name, uint32_t bits, Body&& body) {
  core::g_words->bits.store(bits);
  for (uint32_t i = 0; i < 2; ++i) body(i);
  EmptyRings();
  CALLGRIND_ZERO_STATS;
  for (uint32_t i = 0; i < kRounds; ++i) body(i);
  CALLGRIND_DUMP_STATS_AT(name);
  EmptyRings();
}

void CountAll() {
  const auto pair = [](uint32_t) { Pair("forward"); };
  nvtx::SetStepMatch({});
  Count("nvtx_pair_idle", 0, pair);
  Count("nvtx_pair_recorded", core::kBitRanges, pair);
  Count("nvtx_pair_recorded_registered", core::kBitRanges, [](uint32_t) { RegisteredPair(); });
  Count("launch_record", core::kBitCalls, AppendLaunch);
  Count("launch_enter_exit", core::kBitCalls, EnterAndExitLaunch);
  Count("buffer_request_complete", 0, [](uint32_t) { RequestAndComplete(); });
  nvtx::SetStepMatch({.kind = nvtx::StepMatch::Kind::kExact, .name = "train_step"});
  Count("nvtx_pair_idle_step_source", core::kBitStepSource, pair);
}

}  // namespace
}  // namespace stepagent::bench

int main() {
  if (!stepagent::bench::SetUpHotPaths()) return 1;
  stepagent::bench::CountAll();
  return 0;
}
