// From the application's rings to the collector's disk: the agent's own drainer and uplink, a real
// stepcollector, one or more producer threads.
//
//   path_bench --collector PROGRAM --out FOLDER [--row NAME] [--producers P] [--records N]
//              [--pace-ns NS] [--runs R] [--keep FILE]
//
// N launch records a producer. Without --pace-ns a producer whose ring is full waits (lossless) and
// the result is a rate; with it each producer makes a record every NS and what a full ring refused
// is counted. A run ends when raw.steps holds every byte that was sent. Each run is a process of
// its own, because an agent's state is a process's. --keep FILE: the last run's raw.steps.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/drain/drainer.h"
#include "agent/drain/session_messages.h"
#include "proto/frame.h"
#include "proto/settings.h"
#include "tests/bench/support/measure.h"

extern char** environ;

namespace stepagent::bench {
namespace {

using core::HostClock;

constexpr uint64_t kQueueHigh = uint64_t{16} << 20;  // half of the uplink's queue
constexpr uint64_t kPatienceNs = 120'000'000'000;

struct Options {
  const char* collector = "";
  std::string out, keep;
  unsigned producers = 1;
  uint64_t records = 2'000'000, pace_ns = 0, runs = 9;
};

struct Outcome {
  bool ok = false;
  double seconds = 0, producer_ns = 0, drain_ns = 0, collector_ns = 0, bytes = 0;
  uint64_t dropped = 0, collector_kib = 0;
};

// Counts the bytes that must arrive.
class CountingSink final : public drain::io::FrameSink {
 public:
  explicit CountingSink(drain::io::Uplink* uplink) : uplink_(uplink) {}
  bool Submit(uint8_t type, std::string payload, uint64_t sequence,
              const drain::BatchContent& content) override {
    const uint64_t bytes = payload.size() + proto::kFrameHeaderBytes;
    const bool taken = uplink_->Submit(type, std::move(payload), sequence, content);
    (taken ? submitted_ : refused_) += bytes;
    return taken;
  }
  [[nodiscard]] drain::BatchContent TakeLosses() override { return uplink_->TakeLosses(); }
  [[nodiscard]] uint64_t submitted() const { return submitted_; }
  [[nodiscard]] uint64_t refused() const { return refused_; }

 private:
  drain::io::Uplink* uplink_;
  uint64_t submitted_ = 0, refused_ = 0;
};

void Append(uint32_t number, core::NameId name) {
  core::Append(core::RecordKind::kCall, core::CallClass::kLaunch, [=](core::Record* record) {
    record->begin_ticks = HostClock::Ticks();
    record->end_ticks = record->begin_ticks + 5000;
    record->name = name;
    record->domain = 2;
    record->correlation = number;
    record->category = record->color = 0;
    record->return_value = 0;
    record->stack = 0;
    record->cbid = 211;
  });
}

struct Shared {
  std::atomic<unsigned> ready{0}, live{0};
  std::atomic<bool> go{false};
  std::atomic<uint64_t> dropped{0}, producer_cpu_ns{0};
};

// Until half of the ring is free; the CPU time it took, which is no record's. Ever longer naps:
// where 64 threads share two processors, looking every 50 us is more than the recording.
uint64_t AwaitRoom(const core::ThreadRing& ring) {
  const uint64_t cpu = ThreadNs();
  for (unsigned nap_us = 50; ring.ring.waiting() > ring.ring.slots() / 2;) {
    usleep(nap_us);
    nap_us = std::min(2 * nap_us, 2000U);
  }
  return ThreadNs() - cpu;
}

void Produce(const Options& options, unsigned number, core::NameId name, Shared* shared) {
  Pin(number);
  core::ThreadRing* ring = core::RingRegistry::Local();
  shared->ready.fetch_add(1);
  shared->go.wait(false, std::memory_order_acquire);
  const uint64_t cpu = ThreadNs();
  uint64_t waited = 0;
  uint64_t next = WallNs();
  for (uint64_t i = 0; i < options.records; ++i) {
    if (options.pace_ns == 0 && i % 64 == 0 && ring->ring.waiting() + 64 > ring->ring.slots()) {
      waited += AwaitRoom(*ring);
    }
    // Unique in the process, as CUPTI's are.
    Append(static_cast<uint32_t>(i * options.producers + number + 1), name);
    if (options.pace_ns != 0 && i % 64 == 63) {
      next += options.pace_ns * 64;
      while (WallNs() < next) {
      }
    }
  }
  shared->producer_cpu_ns.fetch_add(ThreadNs() - cpu - waited);
  shared->dropped.fetch_add(ring->dropped_launch.load());
  shared->live.fetch_sub(1);
}

pid_t StartCollector(const Options& options, const std::string& address, const std::string& out) {
  std::string program = options.collector, socket = address, folder = out;
  const char* argv[] = {program.c_str(), "--socket", socket.c_str(), "--out",
                        folder.c_str(),  "--log",    "warn",         nullptr};
  pid_t pid = 0;
  if (posix_spawn(&pid, program.c_str(), nullptr, nullptr, const_cast<char**>(argv), environ) !=
      0) {
    return -1;
  }
  return pid;
}

std::string Hello(const std::string& out) {
  drain::HelloData hello;
  hello.agent_version = "bench";
  hello.identity = {.run = "", .session = "0123456789abcdef", .host = "bench", .rank = 0};
  hello.pid = static_cast<uint32_t>(getpid());
  hello.exe = hello.title = "path_bench";
  hello.clock_host = HostClock::SourceName();
  hello.base_unix_ns = HostClock::base_unix_ns();
  hello.base_mono_ns = HostClock::base_mono_ns();
  hello.step_source = "none";
  hello.out = out;
  hello.activities = {"launch"};
  hello.max_traces = 1;
  return drain::EncodeHello(hello);
}

uint64_t FileBytes(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

template <typename Condition>
bool Await(Condition&& condition) {
  const uint64_t end = WallNs() + kPatienceNs;
  while (!condition()) {
    if (WallNs() > end) return false;
    usleep(200);
  }
  return true;
}

Outcome Record(const Options& options, drain::io::Uplink* uplink, size_t hello_bytes) {
  Outcome outcome;
  CountingSink sink(uplink);
  drain::Drainer drainer({.identity = {.run = "", .session = "0123456789abcdef", .host = "bench"}},
                         &sink);
  drainer.SetAwaited(proto::ActivityBit(4));  // launches alone, as the hello says
  core::Gate().Configure({.max_cycles = 1});
  if (core::Gate().ArmWhole(HostClock::Ticks()) != core::StepGate::Verdict::kOk) return outcome;
  const core::NameId name = core::NameTable::Intern("cudaLaunchKernel");
  Shared shared;
  shared.live = options.producers;
  std::vector<std::thread> producers;
  for (unsigned p = 0; p < options.producers; ++p) {
    producers.emplace_back(Produce, options, p, name, &shared);
  }
  if (!Await([&] { return shared.ready == options.producers; })) return outcome;
  const uint64_t begin = WallNs(), cpu = ThreadNs();
  shared.go.store(true, std::memory_order_release);
  shared.go.notify_all();
  while (true) {
    const bool is_last = shared.live == 0;
    // Lossless: what the collector is behind with is not to overflow the uplink's queue.
    if (options.pace_ns == 0) {
      (void)Await([&] { return uplink->status().queued_bytes < kQueueHigh; });
    }
    drainer.RunOnce(WallNs(), false);
    if (is_last) break;
    std::atomic<uint32_t> never{0};
    core::FutexWait(&never, 0, drainer.poll_ns());  // as the agent's thread while it records
  }
  (void)core::Gate().Stop(core::Ended::kExit, true, HostClock::Ticks());
  drainer.RunOnce(WallNs(), false);
  drainer.Flush(WallNs());
  const uint64_t drain_cpu = ThreadNs() - cpu;
  const std::string raw = uplink->status().session_dir + "/raw.steps";
  const uint64_t wanted = hello_bytes + proto::kFrameHeaderBytes + sink.submitted();
  if (!Await([&] { return FileBytes(raw) >= wanted; })) {
    std::fprintf(stderr, "path_bench: %s has %llu of %llu bytes\n", raw.c_str(),
                 static_cast<unsigned long long>(FileBytes(raw)),
                 static_cast<unsigned long long>(wanted));
    return outcome;
  }
  outcome.seconds = static_cast<double>(WallNs() - begin) * 1e-9;
  for (std::thread& thread : producers) thread.join();
  const double records = static_cast<double>(options.records) * options.producers;
  outcome.producer_ns = static_cast<double>(shared.producer_cpu_ns) / records;
  outcome.drain_ns = static_cast<double>(drain_cpu) / records;
  outcome.bytes = static_cast<double>(wanted) / records;
  outcome.dropped = shared.dropped;
  outcome.ok = sink.refused() == 0;
  if (!outcome.ok) std::fprintf(stderr, "path_bench: the uplink's queue was full\n");
  if (!options.keep.empty())
    std::filesystem::copy_file(raw, options.keep,
                               std::filesystem::copy_options::overwrite_existing);
  return outcome;
}

Outcome RunOnce(const Options& options) {
  Outcome outcome;
  core::RingRegistry::Prepare();
  if (!core::NameTable::Init() || !core::MapPhaseWords()) return outcome;
  HostClock::Start();
  HostClock::Calibrate(true);
  const std::string out = options.out + "/" + std::to_string(getpid());
  std::filesystem::create_directories(out);
  const std::string address = "@stepagent-bench/" + std::to_string(getpid());
  const pid_t collector = StartCollector(options, address, out);
  if (collector < 0) return outcome;
  const std::string hello = Hello(out);
  drain::io::Uplink uplink;
  if (uplink.Start({.session = "0123456789abcdef"})) {
    uplink.SetCollector(address, hello);
    if (Await([&] { return uplink.status().accepted; })) {
      outcome = Record(options, &uplink, hello.size());
    }
  }
  // What the collector would now write is another row's business.
  kill(collector, SIGKILL);
  rusage usage{};
  int status = 0;
  (void)wait4(collector, &status, 0, &usage);
  const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
                     static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
  outcome.collector_ns = cpu / (static_cast<double>(options.records) * options.producers);
  outcome.collector_kib = static_cast<uint64_t>(usage.ru_maxrss);
  std::filesystem::remove_all(out);
  return outcome;
}

// In a child, which hands its outcome back through a pipe.
Outcome RunApart(const Options& options) {
  int ends[2];
  Outcome outcome;
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;  // a collector left behind would hold it open
  const pid_t child = fork();
  if (child == 0) {
    outcome = RunOnce(options);
    const bool told = write(ends[1], &outcome, sizeof outcome) == sizeof outcome;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], &outcome, sizeof outcome) != sizeof outcome) outcome = Outcome();
  close(ends[0]);
  int status = 0;
  (void)waitpid(child, &status, 0);
  return outcome;
}

int Main(int argc, char** argv) {
  Options options;
  options.collector = TextOption(argc, argv, "--collector", "");
  options.out = TextOption(argc, argv, "--out", "/tmp/stepagent-bench");
  options.keep = TextOption(argc, argv, "--keep", "");
  options.producers = static_cast<unsigned>(NumberOption(argc, argv, "--producers", 1));
  options.records = NumberOption(argc, argv, "--records", 2'000'000);
  options.pace_ns = NumberOption(argc, argv, "--pace-ns", 0);
  options.runs = NumberOption(argc, argv, "--runs", 9);
  const std::string row = TextOption(argc, argv, "--row", "path");
  std::vector<double> rate, producer, drain, collector, bytes, dropped, memory;
  for (uint64_t run = 0; run < options.runs; ++run) {
    const Outcome outcome = RunApart(options);
    if (!outcome.ok) return 1;
    const double records = static_cast<double>(options.records) * options.producers;
    rate.push_back((records - static_cast<double>(outcome.dropped)) / outcome.seconds * 1e-6);
    producer.push_back(outcome.producer_ns);
    drain.push_back(outcome.drain_ns);
    collector.push_back(outcome.collector_ns);
    bytes.push_back(outcome.bytes);
    dropped.push_back(static_cast<double>(outcome.dropped));
    memory.push_back(static_cast<double>(outcome.collector_kib) * 1024 / records);
  }
  PrintRow(row, "ours", "M records/s", rate);
  PrintRow(row + "_dropped", "ours", "records", dropped);
  PrintRow(row + "_producer_cpu", "ours", "ns/record", producer);
  PrintRow(row + "_drain_cpu", "ours", "ns/record", drain);
  PrintRow(row + "_collector_cpu", "ours", "ns/record", collector);
  PrintRow(row + "_bytes", "ours", "B/record", bytes);
  PrintRow(row + "_collector_memory", "ours", "B/record", memory);
  return 0;
}

}  // namespace
}  // namespace stepagent::bench

int main(int argc, char** argv) { return stepagent::bench::Main(argc, argv); }
