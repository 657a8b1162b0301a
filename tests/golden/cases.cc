// The cycles themselves. Each is as small as it can be and still show its point.
#include <algorithm>
#include <array>
#include <utility>

#include "tests/golden/cycles.h"

namespace stepagent::testing {
namespace {

using model::CallClass;
using model::Cycle;

// Two steps of a training loop: a copy in, kernels from two threads on two streams, device work
// that lags behind its step, a synchronisation, marks, a second NVTX domain.
Cycle Train() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t main = m.Thread(4242, "python"), side = m.Thread(4250, "backward");
  const uint32_t s7 = m.Lane(0, 1, 7), s13 = m.Lane(0, 1, 13);
  const uint32_t gemm = m.Shape("void gemm<float, 128>(float const*, float*)", {264, 1, 1});
  const uint32_t nccl =
      m.Shape("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
              {24, 1, 1}, {544, 1, 1});
  m.Step(4, 1'000'000, 2'000'000, main);
  m.Step(5, 2'100'000, 3'100'000, main);
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t t = 1'000'000 + i * 1'100'000;
    const auto c = static_cast<uint32_t>(100 + i * 50);
    m.Range("train_step", main, t, t + 1'000'000).is_step_range = true;
    m.Range("load_batch", main, t + 10'000, t + 200'000, "loader").depth = 0;
    m.Range("forward", main, t + 210'000, t + 500'000).depth = 1;
    m.Range("backward", side, t + 510'000, t + 700'000);
    const int32_t in =
        m.Call("cudaMemcpyAsync_v3020", CallClass::kMemcpy, main, t + 205'000, t + 208'000, c);
    const int32_t k1 =
        m.Call("cudaLaunchKernel_v7000", CallClass::kLaunch, main, t + 220'000, t + 226'000, c + 1);
    const int32_t k2 =
        m.Call("cudaLaunchKernel_v7000", CallClass::kLaunch, side, t + 520'000, t + 527'000, c + 2);
    const int32_t k3 = m.Call("cudaLaunchKernelExC_v11060", CallClass::kLaunch, side, t + 540'000,
                              t + 544'000, c + 3);
    const int32_t wait = m.Call("cudaStreamSynchronize_v3020", CallClass::kSync, main, t + 710'000,
                                t + 990'000, c + 4);
    const int64_t lag = i * 700'000;  // the second step's work runs after the step
    m.Copy(1, s7, t + 230'000 + lag, t + 300'123 + lag, 1 << 20, in);
    m.Kernel(gemm, s7, t + 300'124 + lag, t + 640'000 + lag, k1);
    m.Kernel(gemm, s7, t + 640'000 + lag, t + 800'001 + lag, k2);
    m.Kernel(nccl, s13, t + 700'000 + lag, t + 950'000 + lag, k3);
    model::Sync sync;
    sync.begin_ns = t + 711'000, sync.end_ns = t + 989'000, sync.correlation = c + 4;
    sync.call = wait, sync.step = static_cast<int32_t>(i), sync.type = 3, sync.context = 1;
    sync.stream = 7, sync.device = 0;
    m.cycle.syncs.push_back(sync);
  }
  m.cycle.marks.push_back({1'400'000, m.Text("checkpoint"), 0, 3, 0, main, 0});
  m.cycle.overheads.push_back({1'000'500, 1'004'000, 1U << 16, 4251});
  m.cycle.all_steps.count = 8;
  for (uint64_t i = 0; i < 8; ++i) {
    const bool active = i == 4 || i == 5;
    m.cycle.all_steps.each.push_back({i, active ? 1'000'000 : 950'000 + i * 1000,
                                      static_cast<uint8_t>(active   ? 2
                                                           : i == 3 ? 1
                                                                    : 0)});
  }
  m.cycle.cost = {52'000, 12, 0, 31'000'000, 800'000, 6'291'456, 200'000'000};
  return m.Finish();
}

// Text that has broken writers: quotes, control bytes, bad UTF-8, U+2028, JSON and HTML syntax.
Cycle Hostile() {
  CycleMaker m;
  m.AddDevice(0);
  using std::string_literals::operator""s;
  const std::string bad =
      "a\"b\\c\n\t\x01\x1f\x7f \xff\xc0\xaf \xed\xa0\x80 \xe2\x80\xa8 </script> "
      "\xf0\x9f\x9a\x80\xf0\x9f"s;
  m.cycle.session.title = m.cycle.session.exe = bad;
  m.cycle.session.labels = {{"bat\"ch", bad}};
  m.cycle.devices[0].name = bad;
  m.cycle.notes.push_back({"note", bad});
  const uint32_t thread = m.Thread(4242, bad);
  m.Step(0, 1000, 9000, thread);
  m.Range(bad, thread, 1100, 8000, bad);
  m.cycle.marks.push_back({1200, m.Text(bad), m.Text(bad), 0, 0, thread, 0});
  const int32_t call = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 2000, 2500, 1);
  m.Kernel(m.Shape(bad), m.Lane(0, 1, 7), 3000, 4000, call);
  m.Kernel(m.Shape(std::string(5123, 'k')), 0, 4000, 5000,
           m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 2600, 2700, 2));
  return m.Finish();
}

// Everything that overlaps: kernels by 1 ns, a kernel inside another, equal and empty intervals,
// start/end ranges across push/pop ranges, ranges of two domains, two contexts with one stream
// number.
Cycle Overlap() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python");
  const uint32_t a = m.Lane(0, 1, 7), b = m.Lane(0, 2, 7);
  const uint32_t shape = m.Shape("k");
  m.Step(0, 1000, 50'000, thread);
  m.Range("outer", thread, 1000, 40'000);
  model::Range& crossing = m.Range("start/end across", thread, 5000, 45'000);
  crossing.is_start_end = true;
  m.Range("inner", thread, 10'000, 20'000);
  m.Range("other domain", thread, 15'000, 25'000, "lib");
  model::Range& inside = m.Range("start/end inside", thread, 11'000, 14'000);
  inside.is_start_end = true;
  m.Range("empty", thread, 12'000, 12'000);
  const std::array<std::pair<int64_t, int64_t>, 8> work = {{{20'000, 21'000},
                                                            {20'999, 22'000},
                                                            {22'000, 30'000},
                                                            {23'000, 24'000},
                                                            {30'000, 30'000},
                                                            {30'000, 30'000},
                                                            {30'000, 30'049},
                                                            {30'049, 31'048}}};
  for (size_t i = 0; i < work.size(); ++i) {
    const auto t = static_cast<int64_t>(12'000 + i * 200);
    const int32_t call =
        m.Call("cuLaunchKernel", CallClass::kLaunch, 0, t, t + 100, static_cast<uint32_t>(i + 1));
    m.Kernel(shape, i % 2 == 0 ? a : b, work[i].first, work[i].second, call);
  }
  std::stable_sort(m.cycle.kernels.begin(), m.cycle.kernels.end(),
                   [](const auto& x, const auto& y) {
                     return std::pair(x.begin_ns, -x.end_ns) < std::pair(y.begin_ns, -y.end_ns);
                   });
  return m.Finish();
}

Cycle Empty() {
  CycleMaker m;
  m.cycle.complete = false, m.cycle.ended = "exit";
  m.Thread(4242, "python");
  return m.Finish();
}

// Cut by SIGKILL: an open step, open ranges, a launch whose work never came, work whose launch
// never came and whose number an unrelated call has, an impossible stamp.
Cycle Cut() {
  CycleMaker m;
  m.AddDevice(0);
  m.cycle.complete = false, m.cycle.ended = "killed";
  m.cycle.notes.push_back({"unclosed_ranges", "1 range was open when recording ended"});
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  m.Step(7, 1000, 9000, thread);
  m.cycle.steps[0].complete = false, m.cycle.steps[0].contains_tracer_start = true;
  m.Range("epoch", thread, 1000, 9000).cut_at_begin = true;
  m.cycle.ranges.back().cut_at_end = true;
  m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 2000, 2100, 5);
  const int32_t call = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 3000, 3100, 6);
  m.Kernel(shape, lane, 4000, 5000, call);
  m.Kernel(shape, lane, 6000, 7000, -1).correlation = 5;
  m.Kernel(shape, lane, 7000, 8000, -1).correlation = 99;
  model::Kernel& impossible = m.Kernel(shape, lane, 0, 0, -1);
  impossible.placed = false;
  std::rotate(m.cycle.kernels.begin(), m.cycle.kernels.end() - 1, m.cycle.kernels.end());
  Cycle cycle = m.Finish();
  cycle.balance[1] = {4, 3, 0, 0, 1};
  cycle.joins.launches_without_device_work = 1, cycle.joins.device_work_without_launch = 2;
  return cycle;
}

Cycle HostOnlyCase() {
  CycleMaker m;
  const uint32_t thread = m.Thread(4242, "python");
  m.HostOnly("no driver library in the process");
  m.Step(4, 1000, 9000, thread);
  m.Range("train_step", thread, 1000, 9000).is_step_range = true;
  m.Range("load_batch", thread, 2000, 8000);
  return m.Finish();
}

// CUPTI's numbers above 2^31, and one that came twice: the builder gave the second a number of its
// own.
Cycle WideCorrelation() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  m.Step(0, 1000, 9000, thread);
  const uint32_t big = 4'294'967'290U;
  const int32_t first = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 2000, 2100, big);
  const int32_t second = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 3000, 3100, big);
  m.cycle.calls[1].flow_id = 1;
  m.Kernel(shape, lane, 4000, 5000, first);
  m.Kernel(shape, lane, 5000, 6000, second);
  return m.Finish();
}

// A graph launch at node level: one call, many kernels on two streams. And one at graph level.
Cycle Graph() {
  CycleMaker m;
  m.AddDevice(0);
  m.cycle.gpu.graph_level = "node";
  const uint32_t thread = m.Thread(4242, "python"), shape = m.Shape("node kernel");
  const std::array<uint32_t, 2> lanes = {m.Lane(0, 1, 7), m.Lane(0, 1, 13)};
  m.Step(0, 1000, 90'000, thread);
  const int32_t call =
      m.Call("cudaGraphLaunch_v10000", CallClass::kGraphLaunch, thread, 2000, 9000, 40);
  for (uint32_t i = 0; i < 6; ++i) {
    const int64_t t = 10'000 + i * 1000;
    model::Kernel& kernel = m.Kernel(shape, lanes[i % 2], t, t + 1500, call);
    kernel.graph_id = 9, kernel.graph_node_id = (uint64_t{1} << 40) + i;
  }
  const int32_t whole =
      m.Call("cudaGraphLaunch_v10000", CallClass::kGraphLaunch, thread, 30'000, 31'000, 41);
  model::GraphLaunch launch;
  launch.begin_ns = 40'000, launch.end_ns = 60'000, launch.call = whole, launch.graph_id = 10;
  launch.lane = lanes[0], launch.correlation = launch.flow_id = 41, launch.step = 0;
  m.cycle.graph_launches.push_back(launch);
  return m.Finish();
}

// Two devices with the same stream numbers, a peer copy, a set, a context synchronisation.
Cycle TwoDevices() {
  CycleMaker m;
  m.AddDevice(0), m.AddDevice(1);
  const uint32_t thread = m.Thread(4242, "python"), shape = m.Shape("k");
  const std::array<uint32_t, 2> lanes = {m.Lane(0, 1, 7), m.Lane(1, 2, 7)};
  m.Step(0, 1000, 90'000, thread);
  for (uint32_t d = 0; d < 2; ++d) {
    const int64_t t = 2000 + d * 1000;
    const int32_t call = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, t, t + 100, 10 + d);
    m.Kernel(shape, lanes[d], 10'000, 20'000, call);
  }
  const int32_t peer =
      m.Call("cudaMemcpyPeerAsync_v4000", CallClass::kMemcpy, thread, 5000, 5200, 20);
  model::Copy& copy = m.Copy(10, lanes[1], 20'000, 40'000, 1 << 24, peer);
  copy.source_device = 0, copy.target_device = 1;
  const int32_t set_call =
      m.Call("cudaMemsetAsync_v3020", CallClass::kMemset, thread, 6000, 6100, 21);
  model::Set set;
  set.begin_ns = 21'000, set.end_ns = 22'000, set.bytes = 4096, set.memory_kind = 3;
  set.call = set_call, set.lane = lanes[0], set.correlation = set.flow_id = 21, set.step = 0;
  m.cycle.sets.push_back(set);
  const int32_t wait =
      m.Call("cudaDeviceSynchronize_v3020", CallClass::kSync, thread, 7000, 41'000, 22);
  model::Sync sync;
  sync.begin_ns = 7100, sync.end_ns = 40'900, sync.call = wait, sync.step = 0, sync.type = 4;
  sync.context = 1, sync.correlation = 22;
  m.cycle.syncs.push_back(sync);
  return m.Finish();
}

// The application's own range reads ProfilerStep#<n>, with other numbers than ours.
Cycle OwnStepText() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  for (uint32_t i = 0; i < 2; ++i) {
    const int64_t t = 1000 + i * 10'000;
    m.Step(2 + i, t, t + 9000, thread);
    m.Range("ProfilerStep#" + std::to_string(500 + i), thread, t, t + 9000).is_step_range = true;
    m.Range("ProfilerStep#1", thread, t + 1000, t + 2000);  // an ordinary range with that text
    const int32_t call =
        m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, t + 1500, t + 1600, 1 + i);
    m.Kernel(shape, lane, t + 3000, t + 4000, call);
  }
  return m.Finish();
}

// Activity launch off: no call rows, so no step rows either.
Cycle NoLaunch() {
  CycleMaker m;
  m.AddDevice(0);
  m.cycle.kinds[static_cast<size_t>(model::Activity::kLaunch)] = {};
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  m.Step(0, 1000, 9000, thread);
  m.Range("train_step", thread, 1000, 9000).is_step_range = true;
  m.Kernel(shape, lane, 3000, 4000, -1).correlation = 77;
  m.cycle.kernels[0].step = 0;
  return m.Finish();
}

// Work that seems to begin before its launch, by the residual of the clock mapping.
Cycle Skew() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  m.Step(0, 1000, 90'000, thread);
  const int32_t a = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 2000, 2100, 1);
  const int32_t b = m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, 5000, 5100, 2);
  m.Kernel(shape, lane, 1900, 2800, a);
  m.Kernel(shape, lane, 3000, 4000, b);
  return m.Finish();
}

// Stacks of launches: shared by two calls, with an inlined function, without a name, without a
// file, with text that separates frames elsewhere, longer than a row of text holds; one that nobody
// uses.
Cycle Stacks() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  m.Step(0, 1000, 90'000, thread);
  const std::string build_id = "00ff1122334455667788990a0b0c0d0e0f1020";
  const auto frame = [&](std::string_view name, std::string_view module, uint64_t address,
                         std::string_view source = "", uint32_t line = 0) {
    model::Frame f;
    f.name = m.Text(name), f.module = m.Text(module), f.source = m.Text(source);
    f.address = address, f.line = line;
    // Another one for each file: readers take files of one build id for the same.
    if (!module.empty()) f.build_id = build_id + std::to_string(module.size());
    return f;
  };
  const model::Frame launch = frame("nn::launch(float const*, std::map<int, long>)",
                                    "/opt/lib/libmodel.so", 0x1f40, "/src/nn/launch.cc", 41);
  const model::Frame inlined = frame("nn::(anonymous namespace)::step(int)::{lambda(int)#1}",
                                     "/opt/lib/libmodel.so", 0x1f40, "/src/nn/train.cc", 77);
  const model::Frame main = frame("main", "/opt/train", 0x1100);
  m.cycle.stacks.push_back({launch, inlined, frame("", "/opt/lib/libstripped.so", 0x22ee), main});
  m.cycle.stacks.push_back({frame("a;b\"c\\\n\xff", "/opt/li\"b;.so", 7, "/s;r\"c/\x01.cc", 9),
                            main, frame("(frames missing)", "", 0)});
  m.cycle.stacks.push_back({frame("unused", "/opt/unused", 1)});
  std::vector<model::Frame> deep;
  for (uint32_t i = 0; i < 64; ++i) {
    deep.push_back(frame("deep<" + std::string(100, 'T') + ">::call_" + std::to_string(i),
                         "/opt/train", 0x2000 + i, "/src/deep.cc", i + 1));
  }
  m.cycle.stacks.push_back(deep);
  const std::array<int32_t, 5> stack_of = {0, 0, 1, model::kNoIndex, 3};
  for (uint32_t i = 0; i < stack_of.size(); ++i) {
    const int64_t t = 2000 + i * 1000;
    const int32_t call =
        m.Call("cudaLaunchKernel_v7000", CallClass::kLaunch, thread, t, t + 500, 10 + i);
    m.cycle.calls.back().stack = stack_of[i];
    m.Kernel(shape, lane, t + 10'000, t + 10'900, call);
  }
  return m.Finish();
}

const std::vector<std::pair<std::string_view, Cycle (*)()>> kCases = {
    {"train", Train},
    {"hostile", Hostile},
    {"overlap", Overlap},
    {"empty", Empty},
    {"cut", Cut},
    {"host_only", HostOnlyCase},
    {"wide_correlation", WideCorrelation},
    {"graph", Graph},
    {"two_devices", TwoDevices},
    {"own_step_text", OwnStepText},
    {"no_launch", NoLaunch},
    {"skew", Skew},
    {"stacks", Stacks},
};

}  // namespace

const std::vector<std::string_view>& GoldenNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const auto& [name, make] : kCases) out.push_back(name);
    return out;
  }();
  return names;
}

Cycle GoldenCycle(std::string_view name) {
  for (const auto& [known, make] : kCases) {
    if (known == name) return make();
  }
  return {};
}

}  // namespace stepagent::testing
