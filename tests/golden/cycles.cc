#include "tests/golden/cycles.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <utility>

namespace stepagent::testing {
namespace {

using model::CallClass;
using model::Cycle;

constexpr int64_t kBase = 1'790'000'000'000'000'000;  // 2026-09-21, a fixed moment

template <typename T>
void CountPerStep(const std::vector<T>& items, Cycle& cycle,
                  std::optional<uint64_t> model::Step::*count,
                  std::optional<uint64_t> model::OutsideSteps::*outside) {
  for (const T& item : items) {
    if (item.step >= 0) {
      ++*(cycle.steps[static_cast<size_t>(item.step)].*count);
    } else {
      ++*(cycle.outside_steps.*outside);
    }
  }
}

}  // namespace

CycleMaker::CycleMaker() {
  model::SessionInfo& s = cycle.session;
  s.id = "00112233aabbccdd", s.run = "20260921T134640_00c0ffee", s.host = "node-7";
  s.exe = "train.py", s.exe_path = "/opt/train.py", s.title = "python train.py";
  s.rank_source = "RANK", s.agent_version = "0.1.0", s.pid = 4242;
  s.rank = 3, s.world_size = 8, s.local_rank = 3;
  s.base_unix_ns = kBase, s.clock_host = "tsc";
  s.step_source = "nvtx:train_step", s.step_extent = "range";
  s.schedule = model::ScheduleSpec{2, 1, 1, 2, 2, false};
  cycle.complete = true, cycle.ended = "schedule";
  cycle.gpu.status = "collected", cycle.gpu.graph_level = "graph";
  cycle.gpu.driver_version = 13000, cycle.gpu.cupti_version = 130000;
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    const bool on = static_cast<model::Activity>(i) != model::Activity::kMemory;
    cycle.kinds[i].requested = cycle.kinds[i].enabled = on;
  }
}

model::StringId CycleMaker::Text(std::string_view text) {
  const auto found = std::find(cycle.strings.begin(), cycle.strings.end(), text);
  if (found != cycle.strings.end()) {
    return static_cast<model::StringId>(found - cycle.strings.begin());
  }
  cycle.strings.emplace_back(text);
  return static_cast<model::StringId>(cycle.strings.size() - 1);
}

uint32_t CycleMaker::Thread(uint32_t tid, const std::string& name) {
  cycle.threads.push_back({tid, name});
  return static_cast<uint32_t>(cycle.threads.size() - 1);
}

uint32_t CycleMaker::Lane(int32_t device, uint32_t context, uint64_t stream) {
  cycle.lanes.push_back({device, context, true, stream, static_cast<uint32_t>(stream), 0, 0});
  return static_cast<uint32_t>(cycle.lanes.size() - 1);
}

uint32_t CycleMaker::Shape(const std::string& name, std::array<uint32_t, 3> grid,
                           std::array<uint32_t, 3> block) {
  model::Shape shape;
  shape.name = shape.demangled = Text(name);
  shape.grid = grid, shape.block = block, shape.registers_per_thread = 32;
  cycle.shapes.push_back(shape);
  return static_cast<uint32_t>(cycle.shapes.size() - 1);
}

int32_t CycleMaker::Step(uint64_t index, model::TimeNs begin, model::TimeNs end, uint32_t thread) {
  model::Step step;
  step.index = step.process_index = index;
  step.begin_ns = begin, step.end_ns = end, step.thread = thread;
  cycle.steps.push_back(step);
  return static_cast<int32_t>(cycle.steps.size() - 1);
}

int32_t CycleMaker::Call(std::string_view name, CallClass cls, uint32_t thread, model::TimeNs begin,
                         model::TimeNs end, uint32_t correlation) {
  model::Call call;
  call.begin_ns = begin, call.end_ns = end, call.correlation = call.flow_id = correlation;
  call.name = Text(name), call.cls = cls, call.thread = thread, call.cbid = 211;
  call.domain = name.starts_with("cuda") ? 2 : 1;
  for (size_t i = 0; i < cycle.steps.size(); ++i) {
    const model::Step& step = cycle.steps[i];
    if (step.begin_ns <= begin && begin < step.end_ns) call.step = static_cast<int32_t>(i);
  }
  cycle.calls.push_back(call);
  return static_cast<int32_t>(cycle.calls.size() - 1);
}

void CycleMaker::Join(model::DeviceItem& item) {
  if (item.call < 0) return;
  model::Call& call = cycle.calls[static_cast<size_t>(item.call)];
  ++call.device_items;
  item.correlation = call.correlation, item.flow_id = call.flow_id, item.step = call.step;
}

model::Kernel& CycleMaker::Kernel(uint32_t shape, uint32_t lane, model::TimeNs begin,
                                  model::TimeNs end, int32_t call) {
  model::Kernel kernel;
  kernel.shape = shape, kernel.lane = lane, kernel.begin_ns = begin, kernel.end_ns = end;
  kernel.call = call;
  Join(kernel);
  return cycle.kernels.emplace_back(kernel);
}

model::Copy& CycleMaker::Copy(uint8_t kind, uint32_t lane, model::TimeNs begin, model::TimeNs end,
                              uint64_t bytes, int32_t call) {
  model::Copy copy;
  copy.copy_kind = kind, copy.lane = lane, copy.begin_ns = begin, copy.end_ns = end;
  copy.bytes = bytes, copy.call = call, copy.is_async = true;
  copy.source_kind = kind == 1 ? 2 : 3, copy.target_kind = kind == 2 ? 1 : 3;
  Join(copy);
  return cycle.copies.emplace_back(copy);
}

model::Range& CycleMaker::Range(std::string_view name, uint32_t thread, model::TimeNs begin,
                                model::TimeNs end, std::string_view domain) {
  model::Range range;
  range.begin_ns = begin, range.end_ns = end, range.name = Text(name), range.domain = Text(domain);
  range.thread = range.end_thread = thread;
  for (size_t i = 0; i < cycle.steps.size(); ++i) {
    const model::Step& step = cycle.steps[i];
    if (step.begin_ns <= begin && begin < step.end_ns) range.step = static_cast<int32_t>(i);
  }
  return cycle.ranges.emplace_back(range);
}

void CycleMaker::AddDevice(int32_t ordinal) {
  model::DeviceInfo d;
  d.ordinal = ordinal, d.name = "NVIDIA Test 9000";
  d.uuid = "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(ordinal);
  d.memory_bytes = 150'754'820'096, d.multiprocessors = 132, d.compute_major = 9;
  d.warp_size = 32, d.max_threads_per_block = 1024, d.max_threads_per_multiprocessor = 2048;
  d.registers_per_block = d.registers_per_multiprocessor = 65536;
  d.shared_per_block = 49152, d.shared_per_multiprocessor = 233472;
  d.shared_per_block_optin = 232448;
  cycle.devices.push_back(d);
}

void CycleMaker::HostOnly(const std::string& reason) {
  cycle.gpu = {};
  cycle.gpu.reason = reason, cycle.gpu.reason_code = "no_driver";
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    if (static_cast<model::Activity>(i) != model::Activity::kNvtx) cycle.kinds[i].enabled = false;
  }
}

Cycle CycleMaker::Finish() {
  Cycle& c = cycle;
  if (!c.steps.empty()) {
    c.window_begin_ns = c.steps.front().begin_ns, c.window_end_ns = c.steps.back().end_ns;
  }
  if (!c.HostOnly()) {
    for (model::Step& step : c.steps) step.kernels = step.copies = step.sets = 0;
    c.outside_steps.kernels = c.outside_steps.copies = c.outside_steps.sets = 0;
    CountPerStep(c.kernels, c, &model::Step::kernels, &model::OutsideSteps::kernels);
    CountPerStep(c.copies, c, &model::Step::copies, &model::OutsideSteps::copies);
    CountPerStep(c.sets, c, &model::Step::sets, &model::OutsideSteps::sets);
    c.joins = {0, 0, 0, 0, 0};
  }
  for (const model::Call& call : c.calls) {
    if (call.cls != CallClass::kLaunch && call.cls != CallClass::kGraphLaunch) continue;
    ++*c.joins.launches;
    if (call.step >= 0) {
      ++c.steps[static_cast<size_t>(call.step)].launches;
    } else {
      ++c.outside_steps.launches;
    }
  }
  const auto put = [&](model::Activity a, uint64_t written) {
    c.balance[static_cast<size_t>(a)] = {written, written, 0, 0, 0};
    c.kinds[static_cast<size_t>(a)].observed = written;
  };
  put(model::Activity::kNvtx, c.ranges.size() + c.marks.size());
  if (!c.HostOnly()) {
    put(model::Activity::kKernel, c.kernels.size());
    put(model::Activity::kMemcpy, c.copies.size());
    put(model::Activity::kMemset, c.sets.size());
    put(model::Activity::kLaunch, c.calls.size());
    put(model::Activity::kSync, c.syncs.size());
    put(model::Activity::kOverhead, c.overheads.size());
    c.device_residual_ns = 180;
  }
  return std::move(cycle);
}

int WriteGoldenCases(
    int argc, char** argv,
    const std::function<bool(const std::string& dir, const model::Cycle& cycle)>& write) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIR\n", argv[0]);
    return 2;
  }
  const std::string out = argv[1];
  if (mkdir(out.c_str(), 0777) != 0 && errno != EEXIST) return 3;
  bool good = true;
  for (const std::string_view name : GoldenNames()) {
    const std::string dir = out + "/" + std::string(name);
    mkdir(dir.c_str(), 0777);
    good &= write(dir, GoldenCycle(name));
  }
  return good ? 0 : 1;
}

}  // namespace stepagent::testing
