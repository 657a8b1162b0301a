// A raw file back into cycles that can be asked: `read_bench RAW [--runs R]`.
//
// Each run is a process of its own, so that its peak memory is its own. Memory per record is what
// the process grew by.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "collector/spool/recover.h"
#include "tests/bench/support/measure.h"

namespace stepagent::bench {
namespace {

struct Outcome {
  uint64_t records = 0, cpu_ns = 0, wall_ns = 0, kib = 0;
};

Outcome ReadOnce(const std::string& path) {
  Outcome outcome;
  const uint64_t before = PeakKiB(), wall = WallNs(), cpu = ProcessNs();
  uint64_t sum = 0;
  spool::RawReport report;
  const std::string error = spool::ReadCycles(
      path,
      [&](const model::Cycle& cycle) {
        outcome.records += cycle.calls.size() + cycle.kernels.size() + cycle.copies.size() +
                           cycle.sets.size() + cycle.ranges.size() + cycle.marks.size();
        for (const model::Call& call : cycle.calls) sum += static_cast<uint64_t>(call.end_ns);
      },
      &report);
  if (!error.empty() || sum == 0) {
    std::fprintf(stderr, "read_bench: %s: %s\n", path.c_str(), error.c_str());
    outcome.records = 0;
  }
  outcome.cpu_ns = ProcessNs() - cpu;
  outcome.wall_ns = WallNs() - wall;
  outcome.kib = PeakKiB() - before;
  return outcome;
}

Outcome ReadApart(const std::string& path) {
  int ends[2];
  Outcome outcome;
  if (pipe(ends) != 0) return outcome;
  const pid_t child = fork();
  if (child == 0) {
    outcome = ReadOnce(path);
    _exit(write(ends[1], &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], &outcome, sizeof outcome) != sizeof outcome) outcome = Outcome();
  close(ends[0]);
  int status = 0;
  (void)waitpid(child, &status, 0);
  return outcome;
}

}  // namespace
}  // namespace stepagent::bench

int main(int argc, char** argv) {
  using namespace stepagent::bench;  // NOLINT: a program of one file
  if (argc < 2) return 2;
  std::vector<double> rate, memory;
  for (uint64_t run = NumberOption(argc, argv, "--runs", 9); run > 0; --run) {
    const Outcome outcome = ReadApart(argv[1]);
    if (outcome.records == 0) return 1;
    const auto records = static_cast<double>(outcome.records);
    rate.push_back(records / static_cast<double>(outcome.cpu_ns) * 1e3);
    memory.push_back(static_cast<double>(outcome.kib) * 1024 / records);
  }
  PrintRow("read_back", "ours", "M records/s of CPU", rate);
  PrintRow("read_back_memory", "ours", "B/record", memory);
  return 0;
}
