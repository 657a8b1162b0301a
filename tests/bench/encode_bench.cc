// Records to the wire and back: our batches beside libprotobuf's own messages, and CUPTI's buffers.
//
// A batch of 10,000 kernels with 300 launch shapes; a batch of 10,000 launch calls. Time is per
// record. Counters: bytes per record plain and compressed with zstd level 1.
#include <benchmark/benchmark.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <dlfcn.h>
#include <google/protobuf/arena.h>
#include <zstd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/cupti/decoder.h"
#include "agent/cupti/loader.h"
#include "agent/drain/batch_builder.h"
#include "batch.pb.h"
#include "kernel_rows.pb.h"
#include "tests/bench/support/kernel_stream.h"
#include "tests/bench/support/measure.h"

namespace stepagent::bench {
namespace {

constexpr uint32_t kRecords = 10000;
using google::protobuf::Arena;

const std::vector<StreamedKernel>& Kernels() {
  static const auto* kernels = [] {
    KernelStream stream;
    auto* made = new std::vector<StreamedKernel>();
    for (uint32_t i = 0; i < kRecords; ++i) made->push_back(stream.Next());
    return made;
  }();
  return *kernels;
}

core::NameId NameOf(uint32_t name) {
  static const auto* ids = [] {
    auto* made = new std::vector<core::NameId>();
    for (uint32_t i = 0; i < KernelStream::kNames; ++i) {
      made->push_back(core::NameTable::Intern(KernelStream::Name(i)));
    }
    return made;
  }();
  return (*ids)[name];
}

std::vector<core::KernelActivity> Activities() {
  std::vector<core::KernelActivity> made;
  for (const StreamedKernel& k : Kernels()) {
    core::KernelActivity a{};
    a.start_ns = k.start_ns;
    a.end_ns = k.end_ns;
    a.lane = {.device = 0, .context = 1, .stream = k.stream, .channel = 0, .channel_type = 0};
    a.name = NameOf(k.name);
    a.correlation = k.correlation;
    std::memcpy(a.grid, k.grid.data(), sizeof a.grid);
    std::memcpy(a.block, k.block.data(), sizeof a.block);
    a.registers_per_thread = k.registers;
    a.static_shared_bytes = k.static_shared;
    a.dynamic_shared_bytes = k.dynamic_shared;
    made.push_back(a);
  }
  return made;
}

std::vector<core::Record> Launches() {
  std::vector<core::Record> made;
  const core::NameId name = core::NameTable::Intern("cudaLaunchKernel");
  const uint64_t tick_ns = core::HostClock::ToTicks(1000) - core::HostClock::ToTicks(0);
  uint64_t at = core::HostClock::Ticks();
  uint32_t shift = 12345;
  for (const StreamedKernel& k : Kernels()) {
    shift = shift * 1664525 + 1013904223;
    at += tick_ns * (3 + (shift >> 24) / 8);  // a launch each 3 to 35 us
    core::Record r{};
    r.kind = core::RecordKind::kCall;
    r.call_class = core::CallClass::kLaunch;
    r.begin_ticks = at;
    r.end_ticks = at + tick_ns * (2 + (shift >> 28));
    r.name = name;
    r.domain = 2;
    r.cbid = 211;
    r.correlation = k.correlation;
    made.push_back(r);
  }
  return made;
}

drain::BatchIdentity Identity() {
  return {.run = "20260801T000000_0badcafe", .session = "0123456789abcdef", .host = "h", .rank = 0};
}

size_t Compressed(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  return ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1);
}

void Report(benchmark::State& state, const std::string& bytes) {
  state.counters["bytes"] = static_cast<double>(bytes.size()) / kRecords;
  state.counters["compressed"] = static_cast<double>(Compressed(bytes)) / kRecords;
}

// The bytes of one batch without those of an empty one: names and identity come once a batch and
// are counted with it.
std::string EncodeKernels(drain::BatchBuilder* builder,
                          const std::vector<core::KernelActivity>& kernels) {
  static const drain::KindTotals totals[drain::kActivityKinds] = {};
  for (const core::KernelActivity& kernel : kernels) builder->BatchBuilder::OnKernel(kernel);
  return builder->Finish(1, 1, 0, totals, {});
}

void KernelBare(benchmark::State& state) {
  Pin(0);
  const auto& kernels = Kernels();
  std::vector<StreamedKernel> copy(kernels.size());
  while (state.KeepRunningBatch(kRecords)) {
    std::memcpy(copy.data(), kernels.data(), kernels.size() * sizeof(StreamedKernel));
    benchmark::DoNotOptimize(copy.data());
  }
  state.counters["bytes"] = sizeof(StreamedKernel);
}

void KernelOurs(benchmark::State& state) {
  Pin(0);
  const std::vector<core::KernelActivity> kernels = Activities();
  drain::BatchBuilder builder(Identity());
  std::string bytes;
  while (state.KeepRunningBatch(kRecords)) bytes = EncodeKernels(&builder, kernels);
  v1::Batch batch;
  if (!batch.ParseFromString(bytes) || batch.kernels().count() != kRecords) {
    state.SkipWithError("libprotobuf does not read our batch");
  }
  Report(state, bytes);
}

void KernelProtobufRows(benchmark::State& state) {
  Pin(0);
  std::string bytes;
  while (state.KeepRunningBatch(kRecords)) {
    Arena arena;
    auto* rows = Arena::CreateMessage<KernelRows>(&arena);
    rows->mutable_kernel()->Reserve(kRecords);
    for (const StreamedKernel& k : Kernels()) {
      KernelRow* row = rows->add_kernel();
      row->set_start_ns(k.start_ns);
      row->set_end_ns(k.end_ns);
      row->set_device(0);
      row->set_context(1);
      row->set_stream(k.stream);
      row->set_correlation(k.correlation);
      row->set_name(k.name);
      row->set_grid_x(k.grid[0]);
      row->set_grid_y(k.grid[1]);
      row->set_grid_z(k.grid[2]);
      row->set_block_x(k.block[0]);
      row->set_block_y(k.block[1]);
      row->set_block_z(k.block[2]);
      row->set_registers(k.registers);
      row->set_static_shared(k.static_shared);
      row->set_dynamic_shared(k.dynamic_shared);
    }
    bytes.clear();
    rows->SerializeToString(&bytes);
  }
  Report(state, bytes);
}

void FillPacked(KernelPacked* p) {
  uint64_t start = 0;
  uint32_t correlation = 0;
  for (const StreamedKernel& k : Kernels()) {
    p->add_start_delta(static_cast<int64_t>(k.start_ns - start));
    start = k.start_ns;
    p->add_duration_ns(k.end_ns - k.start_ns);
    p->add_device(0);
    p->add_context(1);
    p->add_stream(k.stream);
    p->add_correlation_delta(static_cast<int64_t>(k.correlation) - correlation);
    correlation = k.correlation;
    p->add_name(k.name);
    p->add_grid_x(k.grid[0]);
    p->add_grid_y(k.grid[1]);
    p->add_grid_z(k.grid[2]);
    p->add_block_x(k.block[0]);
    p->add_block_y(k.block[1]);
    p->add_block_z(k.block[2]);
    p->add_registers(k.registers);
    p->add_static_shared(k.static_shared);
    p->add_dynamic_shared(k.dynamic_shared);
  }
}

void KernelProtobufPacked(benchmark::State& state) {
  Pin(0);
  std::string bytes;
  while (state.KeepRunningBatch(kRecords)) {
    Arena arena;
    auto* packed = Arena::CreateMessage<KernelPacked>(&arena);
    FillPacked(packed);
    bytes.clear();
    packed->SerializeToString(&bytes);
  }
  Report(state, bytes);
}

void LaunchOurs(benchmark::State& state) {
  Pin(0);
  static const drain::KindTotals totals[drain::kActivityKinds] = {};
  const std::vector<core::Record> launches = Launches();
  std::vector<const core::Record*> pointers;
  for (const core::Record& launch : launches) pointers.push_back(&launch);
  constexpr size_t kRun = 256;  // as the drainer gives them
  drain::BatchBuilder builder(Identity());
  std::string bytes;
  while (state.KeepRunningBatch(kRecords)) {
    builder.AddThread(0, 1, "main");
    for (size_t at = 0; at < pointers.size(); at += kRun) {
      builder.AddCalls(0, pointers.data() + at,
                       static_cast<uint32_t>(std::min<size_t>(kRun, pointers.size() - at)));
    }
    bytes = builder.Finish(1, 1, 0, totals, {});
  }
  v1::Batch batch;
  if (!batch.ParseFromString(bytes) || batch.calls().count() != kRecords) {
    state.SkipWithError("libprotobuf does not read our batch");
  }
  Report(state, bytes);
}

// --- CUPTI's buffers: the library's own iterator alone, then with our decoder on top.

struct Cupti {
  cupti::ApiTable api;
  cupti::Layouts layouts;
  std::vector<uint64_t> buffer;  // 8-aligned
  size_t bytes = 0;
  bool is_there = false;
};

// A toolkit's, else what the dynamic linker finds (the simulated one). The vendor's iterator needs
// no device, but a libcuda in the process.
void* OpenCupti() {
  (void)dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  for (const cupti::Loader::Candidate& candidate : cupti::Loader::InToolkits()) {
    void* handle = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
  }
  return dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
}

void WriteKernels(Cupti* c, uint32_t record_bytes) {
  c->bytes = size_t{kRecords} * record_bytes;
  c->buffer.assign(c->bytes / 8 + 8, 0);
  static std::vector<std::string> names;
  for (uint32_t i = 0; i < KernelStream::kNames; ++i) names.push_back(KernelStream::Name(i));
  auto* at = reinterpret_cast<uint8_t*>(c->buffer.data());
  for (const StreamedKernel& k : Kernels()) {
    const auto put = [at](size_t offset, auto value) {
      std::memcpy(at + offset, &value, sizeof value);
    };
    put(0, static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    put(6, static_cast<uint16_t>(k.registers));
    put(16, k.start_ns);
    put(24, k.end_ns);
    put(44, uint32_t{1});
    put(48, k.stream);
    for (size_t i = 0; i < 3; ++i) put(52 + 4 * i, k.grid[i]);
    for (size_t i = 0; i < 3; ++i) put(64 + 4 * i, k.block[i]);
    put(76, k.static_shared);
    put(80, k.dynamic_shared);
    put(92, k.correlation);
    put(104, names[k.name].c_str());
    at += record_bytes;
  }
}

Cupti& Library() {
  static auto* made = [] {
    auto* c = new Cupti();
    void* handle = OpenCupti();
    if (handle == nullptr || !c->api.Fill(handle).empty()) return c;
    c->layouts.Calibrate(c->api);
    const uint32_t bytes = c->layouts.bytes(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (bytes == 0) return c;
    WriteKernels(c, bytes);
    c->is_there = true;
    return c;
  }();
  return *made;
}

void WalkIterator(benchmark::State& state) {
  Pin(0);
  Cupti& c = Library();
  if (!c.is_there) return state.SkipWithError("no libcupti");
  auto* data = reinterpret_cast<uint8_t*>(c.buffer.data());
  uint64_t sum = 0;
  while (state.KeepRunningBatch(kRecords)) {
    CUpti_Activity* record = nullptr;
    while (c.api.ActivityGetNextRecord(data, c.bytes, &record) == CUPTI_SUCCESS) {
      sum += record->kind;
    }
  }
  benchmark::DoNotOptimize(sum);
}

class CountingSink final : public core::ActivitySink {
 public:
  uint64_t kernels = 0, sum = 0;
  void OnKernel(const core::KernelActivity& k) override {
    ++kernels;
    sum += k.start_ns + k.name;
  }
  void OnMemcpy(const core::MemcpyActivity&) override {}
  void OnMemset(const core::MemsetActivity&) override {}
  void OnSync(const core::SyncActivity&) override {}
  void OnGraphLaunch(const core::GraphActivity&) override {}
  void OnOverhead(const core::OverheadActivity&) override {}
  void OnMemory(const core::MemoryActivity&) override {}
  void OnDevice(const core::DeviceActivity&) override {}
  void OnContext(const core::ContextActivity&) override {}
  void OnStream(const core::StreamActivity&) override {}
  void OnInvalid(uint32_t) override {}
};

void WalkOurs(benchmark::State& state) {
  Pin(0);
  Cupti& c = Library();
  if (!c.is_there) return state.SkipWithError("no libcupti");
  cupti::Decoder decoder;
  decoder.Use(&c.api, &c.layouts, nullptr);
  decoder.SetNow(Kernels().back().end_ns + 1'000'000'000);
  CountingSink sink;
  auto* data = reinterpret_cast<uint8_t*>(c.buffer.data());
  uint64_t rounds = 0;
  while (state.KeepRunningBatch(kRecords)) {
    decoder.DecodeBuffer(data, c.bytes, &sink);
    ++rounds;
  }
  if (sink.kernels != rounds * kRecords) state.SkipWithError("the decoder lost records");
}

BENCHMARK(KernelBare)->Name("encode_kernel/bare");
BENCHMARK(KernelOurs)->Name("encode_kernel/ours");
BENCHMARK(KernelProtobufRows)->Name("encode_kernel/libprotobuf_rows");
BENCHMARK(KernelProtobufPacked)->Name("encode_kernel/libprotobuf_columns");
BENCHMARK(LaunchOurs)->Name("encode_launch/ours");
BENCHMARK(WalkIterator)->Name("walk_buffer/iterator");
BENCHMARK(WalkOurs)->Name("walk_buffer/ours");

}  // namespace
}  // namespace stepagent::bench

int main(int argc, char** argv) {
  if (!stepagent::core::NameTable::Init()) return 1;
  stepagent::core::HostClock::Start();
  stepagent::core::HostClock::Calibrate(true);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
