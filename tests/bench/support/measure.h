#pragma once
// Clocks, pinning and result lines of the whole-path programs.
//
// Purpose: a program prints one JSON object a line, `{"row","variant","unit","samples":[…]}`, and
// run_bench.py gathers them with Google Benchmark's output.
// Thread rule: any thread. Failure rule: a program that cannot measure ends with a line and
// status 1.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace stepagent::bench {

inline uint64_t ClockNs(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000U + static_cast<uint64_t>(t.tv_nsec);
}
inline uint64_t WallNs() { return ClockNs(CLOCK_MONOTONIC); }
inline uint64_t ThreadNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }
inline uint64_t ProcessNs() { return ClockNs(CLOCK_PROCESS_CPUTIME_ID); }

// This thread onto one processor; beyond the last one it counts round.
inline void Pin(unsigned cpu) {
  static const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % static_cast<unsigned>(cpus), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

// Peak resident memory of this process, KiB.
inline uint64_t PeakKiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

inline void PrintRow(const std::string& row, const std::string& variant, const char* unit,
                     const std::vector<double>& samples, const std::string& extra = "") {
  std::printf("{\"row\":\"%s\",\"variant\":\"%s\",\"unit\":\"%s\",\"samples\":[", row.c_str(),
              variant.c_str(), unit);
  for (size_t i = 0; i < samples.size(); ++i) std::printf("%s%.6g", i != 0 ? "," : "", samples[i]);
  std::printf("]%s%s}\n", extra.empty() ? "" : ",", extra.c_str());
  std::fflush(stdout);
}

// --name VALUE on the command line, else `fallback`.
inline const char* TextOption(int argc, char** argv, const char* name, const char* fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return fallback;
}
inline uint64_t NumberOption(int argc, char** argv, const char* name, uint64_t fallback) {
  const char* text = TextOption(argc, argv, name, nullptr);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

}  // namespace stepagent::bench
