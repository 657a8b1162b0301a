// A cycle into trace files: a million kernels, each with its launch row and the flow between them.
//
//   write_bench --out FOLDER [--kernels N] [--runs R] [--formats chrome,perfetto,…]
//
// Beside ours, interleaved: the bare writer, which formats the same kernels' names, times and
// shapes as Chrome rows into a buffer and writes that (kernel rows only, no hash, not compressed),
// and zlib on the bare writer's text. CPU is that of all threads; `_elapsed` rows are by the wall
// clock.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/writer.h"
#include "tests/bench/support/kernel_stream.h"
#include "tests/bench/support/measure.h"

namespace stepagent::bench {
namespace {

constexpr uint32_t kLaunchesPerStep = 2000;

model::Cycle MakeCycle(uint32_t kernels) {
  model::Cycle c;
  c.session.exe = "train.py";
  c.session.host = "bench";
  c.session.rank = 0;
  c.session.base_unix_ns = 1'790'000'000'000'000'000;
  c.session.activities = {"kernel", "launch"};
  c.gpu.status = "collected";
  c.complete = true;
  c.threads.push_back({4242, "python"});
  c.lanes = {{0, 1, true, 7, 7, 0, 0}, {0, 1, true, 20, 20, 0, 0}, {0, 1, true, 24, 24, 0, 0}};
  c.devices.push_back({.ordinal = 0,
                       .name = "GPU",
                       .multiprocessors = 132,
                       .compute_major = 9,
                       .warp_size = 32,
                       .max_threads_per_block = 1024,
                       .max_threads_per_multiprocessor = 2048,
                       .registers_per_block = 65536,
                       .registers_per_multiprocessor = 65536,
                       .shared_per_block = 49152,
                       .shared_per_multiprocessor = 233472,
                       .shared_per_block_optin = 232448});
  c.strings.emplace_back("cudaLaunchKernel");
  for (const auto kind : {model::Activity::kKernel, model::Activity::kLaunch}) {
    c.kinds[static_cast<size_t>(kind)] = {true, true, kernels, ""};
    c.balance[static_cast<size_t>(kind)] = {kernels, kernels, 0, 0, 0};
  }
  std::vector<int64_t> shape_of(KernelStream::kNames, -1);
  KernelStream stream;
  const auto base = static_cast<uint64_t>(c.session.base_unix_ns);
  for (uint32_t i = 0; i < kernels; ++i) {
    const StreamedKernel k = stream.Next();
    if (shape_of[k.name] < 0) {
      shape_of[k.name] = static_cast<int64_t>(c.shapes.size());
      const auto name = static_cast<model::StringId>(c.strings.size());
      c.strings.push_back(KernelStream::Name(k.name));
      c.shapes.push_back(
          {name, name, k.grid, k.block, {}, k.registers, k.static_shared, k.dynamic_shared, 0});
    }
    const auto begin = static_cast<model::TimeNs>(k.start_ns - base);
    model::Call call;
    call.begin_ns = begin - 4000;
    call.end_ns = begin - 2100;
    if (i > 0) call.begin_ns = std::max(call.begin_ns, c.calls.back().end_ns + 10);
    call.end_ns = std::max(call.end_ns, call.begin_ns + 500);
    call.correlation = call.flow_id = k.correlation;
    call.name = 1;
    call.cbid = 211;
    call.cls = model::CallClass::kLaunch;
    call.domain = 2;
    call.device_items = 1;
    call.step = static_cast<int32_t>(i / kLaunchesPerStep);
    c.calls.push_back(call);
    model::Kernel kernel;
    kernel.begin_ns = std::max(begin, call.end_ns);
    kernel.end_ns = kernel.begin_ns + static_cast<model::TimeNs>(k.end_ns - k.start_ns);
    kernel.correlation = kernel.flow_id = k.correlation;
    kernel.call = static_cast<int32_t>(i);
    kernel.step = call.step;
    kernel.lane = k.stream == 7 ? 0 : k.stream == 20 ? 1 : 2;
    kernel.shape = static_cast<uint32_t>(shape_of[k.name]);
    c.kernels.push_back(kernel);
    if (i % kLaunchesPerStep == 0) {
      if (!c.steps.empty()) c.steps.back().end_ns = call.begin_ns - 5;
      model::Step step;
      step.index = step.process_index = c.steps.size();
      step.begin_ns = call.begin_ns - 5;
      step.launches = kLaunchesPerStep;
      step.kernels = kLaunchesPerStep;
      c.steps.push_back(step);
    }
  }
  std::stable_sort(c.kernels.begin(), c.kernels.end(),  // as a cycle's are
                   [](const model::Kernel& a, const model::Kernel& b) {
                     return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns
                                                     : a.end_ns > b.end_ns;
                   });
  c.steps.back().end_ns = c.calls.back().end_ns + 5;
  c.window_begin_ns = c.steps.front().begin_ns;
  c.window_end_ns = c.steps.back().end_ns;
  return c;
}

// --- the bare writer

char* Put(char* at, std::string_view text) {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}
char* Number(char* at, uint64_t value) { return std::to_chars(at, at + 20, value).ptr; }
char* Micros(char* at, uint64_t ns) {
  at = Number(at, ns / 1000);
  const auto rest = static_cast<unsigned>(ns % 1000);
  *at++ = '.';
  *at++ = static_cast<char>('0' + rest / 100);
  *at++ = static_cast<char>('0' + rest / 10 % 10);
  *at++ = static_cast<char>('0' + rest % 10);
  return at;
}

char* BareRow(char* at, const model::Cycle& c, const model::Kernel& k) {
  const model::Shape& shape = c.shapes[k.shape];
  at = Put(at, R"({"ph":"X","cat":"kernel","name":")");
  at = Put(at, c.strings[shape.demangled]);
  at = Put(at, R"(","pid":0,"tid":)");
  at = Number(at, c.lanes[k.lane].stream);
  at = Put(at, R"(,"ts":)");
  at = Micros(at, static_cast<uint64_t>(k.begin_ns));
  at = Put(at, R"(,"dur":)");
  at = Micros(at, static_cast<uint64_t>(k.end_ns - k.begin_ns));
  at = Put(at, R"(,"args":{"correlation":)");
  at = Number(at, k.correlation);
  at = Put(at, R"(,"registers per thread":)");
  at = Number(at, shape.registers_per_thread);
  at = Put(at, R"(,"grid":[)");
  for (const uint32_t n : shape.grid) *(at = Number(at, n)) = ',', ++at;
  at[-1] = ']';
  at = Put(at, R"(,"block":[)");
  for (const uint32_t n : shape.block) *(at = Number(at, n)) = ',', ++at;
  at[-1] = ']';
  return Put(at, "}},\n");
}

// Returns the bytes written; `sample` keeps the first 32 MiB.
uint64_t BareWrite(const model::Cycle& c, const std::string& path, std::string* sample) {
  constexpr size_t kBuffer = size_t{1} << 20;
  std::vector<char> buffer(kBuffer + 4096);
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  uint64_t bytes = 0;
  char* at = buffer.data();
  const auto flush = [&] {
    const auto size = static_cast<size_t>(at - buffer.data());
    if (write(fd, buffer.data(), size) != static_cast<ssize_t>(size)) std::abort();
    if (sample != nullptr && sample->size() < (32U << 20)) sample->append(buffer.data(), size);
    bytes += size;
    at = buffer.data();
  };
  for (const model::Kernel& kernel : c.kernels) {
    at = BareRow(at, c, kernel);
    if (at > buffer.data() + kBuffer) flush();
  }
  flush();
  close(fd);
  return bytes;
}

struct Series {
  std::string row, variant;
  const char* unit;
  std::vector<double> samples;
};

class Table {
 public:
  void Add(const std::string& row, const std::string& variant, const char* unit, double value) {
    for (Series& s : series_) {
      if (s.row == row && s.variant == variant) return s.samples.push_back(value);
    }
    series_.push_back({row, variant, unit, {value}});
  }
  void Print() const {
    for (const Series& s : series_) PrintRow(s.row, s.variant, s.unit, s.samples);
  }

 private:
  std::vector<Series> series_;
};

// Of this process, in KiB: `VmRSS:` now or `VmHWM:` the most so far.
double StatusKib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == field) return status >> kib ? kib : 0;
  }
  return 0;
}
// The most so far begins anew, with what an earlier writer freed given back.
void ResetPeak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

bool WriteOurs(const model::Cycle& cycle, const std::string& out, const std::string& format,
               const std::string& row, Table* table) {
  std::filesystem::remove_all(out + "/ours");
  const std::string folder = out + "/ours/traces";  // a split trace's parts go beside it
  std::filesystem::create_directories(folder);
  const auto writer = writers::MakeWriter(format);
  if (writer == nullptr) return false;
  const auto count = static_cast<double>(cycle.kernels.size());
  ResetPeak();
  const double before_kib = StatusKib("VmRSS:");
  const uint64_t wall = WallNs(), all = ProcessNs(), mine = ThreadNs();
  const writers::WriteResult result = writer->Write(
      cycle, {.traces_dir = folder, .cycle_dir = folder, .trace_stem = "t", .progress = {}});
  if (!result.ok) {
    std::fprintf(stderr, "write_bench: %s\n", result.error.c_str());
    return false;
  }
  const double mine_ns = static_cast<double>(ThreadNs() - mine) / count;
  const double all_ns = static_cast<double>(ProcessNs() - all) / count;
  table->Add("write_" + row, "ours", "ns/kernel", mine_ns);
  table->Add("write_" + row + "_all_threads", "ours", "ns/kernel", all_ns);
  table->Add("write_" + row + "_elapsed", "ours", "ns/kernel",
             static_cast<double>(WallNs() - wall) / count);
  table->Add("write_" + row + "_peak_memory", "ours", "MiB beyond the cycle's own",
             (StatusKib("VmHWM:") - before_kib) / 1024);
  uint64_t bytes = 0;
  for (const writers::WrittenFile& file : result.files) bytes += file.bytes;
  table->Add("write_" + row + "_bytes", "ours", "B/kernel", static_cast<double>(bytes) / count);
  return true;
}

void CompressBare(const std::string& text, double rows, Table* table) {
  std::string out(compressBound(text.size()) + 1024, '\0');
  for (const int level : {1, 6}) {
    uLongf size = out.size();
    const uint64_t begin = ThreadNs();
    (void)compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                    reinterpret_cast<const Bytef*>(text.data()), text.size(), level);
    table->Add("compress_bare_text", "zlib_" + std::to_string(level), "ns/kernel",
               static_cast<double>(ThreadNs() - begin) / rows);
  }
  const uint64_t begin = ThreadNs();
  (void)ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1);
  table->Add("compress_bare_text", "zstd_1", "ns/kernel",
             static_cast<double>(ThreadNs() - begin) / rows);
}

int Main(int argc, char** argv) {
  const std::string out = TextOption(argc, argv, "--out", "/tmp/stepagent-bench");
  const auto kernels = static_cast<uint32_t>(NumberOption(argc, argv, "--kernels", 1'000'000));
  const uint64_t runs = NumberOption(argc, argv, "--runs", 9);
  const std::string formats = TextOption(argc, argv, "--formats", "chrome,perfetto,sqlite,html");
  std::filesystem::create_directories(out);
  const model::Cycle cycle = MakeCycle(kernels);
  // The peers' figures for Perfetto are of kernels alone.
  model::Cycle work_only = cycle;
  work_only.calls.clear();
  for (model::Kernel& kernel : work_only.kernels) kernel.call = model::kNoIndex;
  Table table;
  for (uint64_t run = 0; run < runs; ++run) {
    std::string sample;
    const uint64_t begin = ThreadNs();
    const uint64_t bytes = BareWrite(cycle, out + "/bare.json", nullptr);
    const double count = kernels;
    table.Add("write_chrome", "bare", "ns/kernel", static_cast<double>(ThreadNs() - begin) / count);
    table.Add("write_chrome_bytes", "bare", "B/kernel", static_cast<double>(bytes) / count);
    for (size_t at = 0; at < formats.size();) {
      const size_t end = std::min(formats.find(',', at), formats.size());
      const std::string format = formats.substr(at, end - at);
      const bool is_perfetto = format == "perfetto";
      at = end + 1;
      if ((format == "sqlite" || format == "html") && run >= 3) continue;  // seconds each
      if (!WriteOurs(is_perfetto ? work_only : cycle, out, format, format, &table)) return 1;
      if (is_perfetto && !WriteOurs(cycle, out, format, format + "_launches", &table)) return 1;
    }
    if (run < 3) {  // the peers' level 6 alone takes seconds
      (void)BareWrite(cycle, out + "/bare.json", &sample);
      const double rows = count * static_cast<double>(sample.size()) / static_cast<double>(bytes);
      CompressBare(sample, rows, &table);
    }
  }
  std::filesystem::remove(out + "/bare.json");
  std::filesystem::remove_all(out + "/ours");
  table.Print();
  return 0;
}

}  // namespace
}  // namespace stepagent::bench

int main(int argc, char** argv) { return stepagent::bench::Main(argc, argv); }
