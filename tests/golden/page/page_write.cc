// page_write DIR: report.html of every golden cycle, and of cycles that only a page needs: one with
// readings, one of more than a hundred thousand items whole and cut, one whose names attack.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "collector/writers/html.h"
#include "tests/golden/cycles.h"

namespace {

using stepagent::model::CallClass;
using stepagent::model::Cycle;
using stepagent::testing::CycleMaker;

constexpr int64_t kMs = 1'000'000;

// Three steps that mostly load: device idle while `load_batch` runs.
Cycle SlowLoader() {
  CycleMaker m;
  m.AddDevice(0);
  m.cycle.session.labels = {{"batch", "64"}, {"samples_per_step", "64"}};
  const uint32_t main = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), copies = m.Lane(0, 1, 13);
  const uint32_t gemm = m.Shape("void gemm<float, 128>(float const*, float*)");
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t t = (10 + i * 11) * kMs;
    const auto c = static_cast<uint32_t>(10 + i * 10);
    m.Step(static_cast<uint64_t>(5 + i), t, t + 10 * kMs, main);
    m.Range("train_step", main, t, t + 10 * kMs).is_step_range = true;
    m.Range("load_batch", main, t + kMs / 10, t + 7 * kMs).depth = 1;
    const int32_t in = m.Call("cudaMemcpyAsync_v3020", CallClass::kMemcpy, main, t + 7 * kMs + 1000,
                              t + 7 * kMs + 9000, c);
    const int32_t launch = m.Call("cudaLaunchKernel_v7000", CallClass::kLaunch, main,
                                  t + 7 * kMs + 20'000, t + 7 * kMs + 26'000, c + 1);
    m.Call("cudaStreamSynchronize_v3020", CallClass::kSync, main, t + 8 * kMs, t + 9 * kMs, c + 2);
    m.Copy(1, copies, t + 7 * kMs + 10'000, t + 7 * kMs + 200'000, 1 << 20, in);
    m.Kernel(gemm, lane, t + 7 * kMs + 210'000, t + 9 * kMs, launch);
    m.cycle.all_steps.each.push_back({static_cast<uint64_t>(5 + i), 10 * kMs, 2});
  }
  m.cycle.all_steps.each.insert(
      m.cycle.all_steps.each.begin(),
      {{0, 90 * kMs, 0}, {1, 10 * kMs, 0}, {2, 10 * kMs, 0}, {3, 10 * kMs, 0}, {4, 10 * kMs, 1}});
  m.cycle.all_steps.count = 8;
  m.cycle.cost.raw_bytes = 12'000;
  return m.Finish();
}

// 60,000 launches of 60,000 kernels on four streams from two threads, in eight steps.
Cycle Many() {
  constexpr int64_t kSteps = 8, kLaunches = 60'000, kEach = 9000;
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t threads[] = {m.Thread(4242, "python"), m.Thread(4250, "backward")};
  uint32_t lanes[4], shapes[40];
  for (uint32_t i = 0; i < 4; ++i) lanes[i] = m.Lane(0, 1, 7 + i);
  for (uint32_t i = 0; i < 40; ++i) shapes[i] = m.Shape("void kernel_" + std::to_string(i) + "()");
  const int64_t length = kLaunches / kSteps * kEach;
  for (int64_t i = 0; i < kSteps; ++i) {
    m.Step(static_cast<uint64_t>(i), i * length, (i + 1) * length, threads[0]);
    for (int64_t layer = 0; layer < 100; ++layer) {
      const int64_t t = i * length + layer * (length / 100);
      m.Range("layer " + std::to_string(layer), threads[0], t, t + length / 100 - 100);
    }
  }
  for (int64_t i = 0; i < kLaunches; ++i) {
    const int64_t t = i * kEach;
    const int32_t call = m.Call("cudaLaunchKernel_v7000", CallClass::kLaunch, threads[i % 2], t,
                                t + 3000 + i % 7 * 100, static_cast<uint32_t>(i + 1));
    m.Kernel(shapes[(i * 7 + i / 13) % 40], lanes[i % 4], t + 5000, t + 9000 + i % 11 * 2000, call);
  }
  return m.Finish();
}

// The slow loader with other names. If any were read as HTML or script, `window.hit` would be set.
Cycle Attack() {
  const std::string attack =
      "</script><img src=x onerror=\"window.hit=1\"><script>window.hit=2</script><!-- '\"`${1}";
  Cycle cycle = SlowLoader();
  for (std::string& text : cycle.strings) {
    if (!text.empty()) text = attack + text;
  }
  for (stepagent::model::Thread& thread : cycle.threads) thread.name = attack;
  cycle.session.exe = cycle.session.title = cycle.session.host = attack;
  cycle.session.labels = {{attack, attack}};
  cycle.devices[0].name = attack;
  cycle.notes.push_back({attack, attack});
  return cycle;
}

bool Write(const std::string& out, std::string_view name, const Cycle& cycle,
           uint64_t limit = stepagent::writers::HtmlWriter::kDrawnLimit) {
  const std::string dir = out + "/" + std::string(name);
  mkdir(dir.c_str(), 0777);
  const auto result = stepagent::writers::HtmlWriter(limit).Write(cycle, {dir, dir, "stem.0", {}});
  if (!result.ok) std::fprintf(stderr, "%s\n", result.error.c_str());
  return result.ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: page_write DIR\n");
    return 2;
  }
  const std::string out = argv[1];
  if (mkdir(out.c_str(), 0777) != 0 && errno != EEXIST) return 3;
  bool good = true;
  for (const std::string_view name : stepagent::testing::GoldenNames()) {
    good &= Write(out, name, stepagent::testing::GoldenCycle(name));
  }
  const Cycle many = Many();
  good &= Write(out, "slow_loader", SlowLoader()) && Write(out, "attack", Attack()) &&
          Write(out, "many", many) && Write(out, "many_cut", many, 20'000);
  return good ? 0 : 1;
}
