// quick_nvtx: ns of CPU per NVTX push+pop pair, through the real NVTX client and our handlers.
//
// Not a test: it prints the least and the median of nine rounds for each state of the agent. Rows:
// idle without a step source, idle with one (another name), recorded (one drain per round), and two
// records appended by hand to the same ring, which is the floor of the recorded row.
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/nvtx/nvtx_entry.h"

namespace {

using namespace stepagent;  // NOLINT: a program of one file

constexpr int kRounds = 9;
constexpr int kPairs = 3000;  // two records each: fits a ring of 8192
constexpr int kRepeats = 200;

void DrainAll() {
  core::RingRegistry::ForEach([](core::ThreadRing* ring) {
    for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
      ring->ring.Consume(span.count);
    }
  });
}

// CPU time of this thread: what neighbours on the machine take is not ours.
uint64_t CpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000U + static_cast<uint64_t>(t.tv_nsec);
}

template <typename Body>
void Row(const char* name, Body&& body) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t ns = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      const uint64_t begin = CpuNs();
      for (int i = 0; i < kPairs; ++i) body();
      ns += CpuNs() - begin;
      DrainAll();
    }
    rounds.push_back(static_cast<double>(ns) / (double{kRepeats} * kPairs));
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf("%-44s %6.2f min %6.2f median ns/pair\n", name, rounds.front(), rounds[kRounds / 2]);
}

void AppendTwo() {
  for (auto kind : {core::RecordKind::kRangePush, core::RecordKind::kRangePop}) {
    core::Append(kind, core::CallClass::kOther, [](core::Record* record) {
      record->range_id = 0;
      record->name = 2;
      record->domain = record->category = record->color = 0;
      record->begin_ticks = core::HostClock::Ticks();
    });
  }
}

void Pair(const char* name) {
  nvtxRangePushA(name);
  nvtxRangePop();
}

}  // namespace

int main() {
  core::HostClock::Start();
  core::HostClock::Calibrate(true);
  if (!core::MapPhaseWords()) return 1;
  core::Gate().Configure({});
  if (nvtx::Attach(reinterpret_cast<void*>(&NVTX_VERSIONED_IDENTIFIER(nvtxGetExportTable))) != 1) {
    return 1;
  }
  std::printf("clock %s\n", core::HostClock::SourceName());
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("quick");
  const nvtxStringHandle_t known = nvtxDomainRegisterStringA(domain, "forward");
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = known;
  const auto domain_pair = [&] {
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
  };

  Row("idle, no step source", [] { Pair("forward"); });
  nvtx::SetStepMatch({.kind = nvtx::StepMatch::Kind::kExact, .name = "train_step"});
  Row("idle, step source of another name", [] { Pair("forward"); });
  Row("idle, step source, name of the same begin", [] { Pair("train_steps"); });
  Row("idle, domain and registered string", domain_pair);
  Row("idle, start/end", [] { nvtxRangeEnd(nvtxRangeStartA("forward")); });
  nvtx::SetStepMatch({.kind = nvtx::StepMatch::Kind::kGlob, .name = "ProfilerStep#*"});
  Row("idle, glob step source", [] { Pair("forward"); });

  if (core::Gate().Arm({.wait = 1}, 1) != core::StepGate::Verdict::kOk) return 1;
  Row("waiting, names counted", [] { Pair("forward"); });
  (void)core::Gate().Stop(core::Ended::kRequest, true, 1);
  if (core::Gate().ArmWhole(core::HostClock::Ticks()) != core::StepGate::Verdict::kOk) return 1;
  core::g_words->bits.fetch_and(~core::kBitCountNames);
  Row("floor: two records by hand", AppendTwo);
  Row("recorded, glob step source", [] { Pair("forward"); });
  nvtx::SetStepMatch({});
  Row("recorded, 7 characters", [] { Pair("forward"); });
  Row("recorded, 30 characters", [] { Pair("autograd::engine::evaluate_fun"); });
  Row("recorded, domain and registered string", domain_pair);
  Row("floor: two records by hand", AppendTwo);
  return 0;
}
