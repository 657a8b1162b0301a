// The programs of tests/apps by themselves: no agent, on the host and on the simulated device.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;

constexpr int kSkipped = 77;
const std::string kApps = STEPAGENT_APPS_DIR;
const std::string kSimCuda = STEPAGENT_SIM_DIR "/cuda";
const std::string kSimLibraries = kSimCuda + ":" STEPAGENT_SIM_DIR "/cupti-13.0";

// An interpreter that has the distribution's python3-numba.
std::string TrainPy() {
  const char* python = std::getenv("STEPAGENT_TEST_PYTHON");
  return std::string(python != nullptr ? python : "/usr/bin/python3") + " '" + kApps + "/train.py'";
}

struct Outcome {
  int status = 0;  // exit status, or 128 + signal
  std::string output;
};

// Runs a shell command line with the build's programs in PATH; a shell, because half of the tests
// want a signal or a pipe around the program.
Outcome Execute(const std::string& command, const std::string& library_path = "") {
  std::string line = "export PATH='" + kApps + "':\"$PATH\"; ";
  if (!library_path.empty()) line += "export LD_LIBRARY_PATH='" + library_path + "'; ";
  // A victim dies as it would without a sanitizer. The simulated driver keeps dead handles on
  // purpose, to know them again, so leaks are not looked for in programs that use it.
  line += "export ASAN_OPTIONS=handle_segv=0:handle_abort=0:detect_leaks=";
  line += library_path.empty() ? "1; " : "0; ";
  line +=
      "export TSAN_OPTIONS=handle_segv=0:handle_abort=0:suppressions='" STEPAGENT_TSAN_SUPPRESSIONS
      "'; ";
  line += command;
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {kSkipped, "popen failed"};
  Outcome outcome;
  std::array<char, 4096> block;
  for (size_t read; (read = fread(block.data(), 1, block.size(), pipe)) > 0;) {
    outcome.output.append(block.data(), read);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome ExecuteSimulated(const std::string& command) { return Execute(command, kSimLibraries); }

bool HasSimulator() { return std::filesystem::exists(kSimCuda + "/libcuda.so.1"); }

class Host : public testing::Test {};

class Simulated : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasSimulator()) GTEST_SKIP() << "the simulated libraries are not built";
  }
};

// The JSON object that starts at the first line with a brace and ends with the last one.
Json FindJson(const std::string& text) {
  const size_t begin = text.find('{'), end = text.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return nullptr;
  return Json::parse(text.substr(begin, end - begin + 1), nullptr, false);
}

void ExpectPlanKept(const std::string& options, const std::string& libraries) {
  const Outcome plan = Execute("train_loop --print-expected " + options, libraries);
  const Outcome run = Execute("train_loop --sleep-us 100 --print-counts " + options, libraries);
  EXPECT_EQ(run.status, 0) << run.output;
  const Json expected = FindJson(plan.output), counted = FindJson(run.output);
  ASSERT_TRUE(expected.is_object()) << plan.output;
  EXPECT_EQ(expected, counted) << options;
}

TEST_F(Host, EveryProgramHasHelp) {
  const std::vector<std::string> programs = {
      "train_loop",   "server",        "replay",     "close_all",   "driver_paths",
      "early_range",  "env_fds",       "exit_ways",  "fork_storm",  "graph_heavy",
      "many_threads", "multi_device",  "nvtx_loop",  "plugin_host", "hostile_names",
      "rival_cupti",  "runtime_loop",  "signal_mix", "spawn_ways",  "never_ending_kernel",
      "sandboxed",    "static_program"};
  for (const std::string& program : programs) {
    const Outcome help = Execute(program + " --help");
    EXPECT_EQ(help.status, 0) << program;
    EXPECT_NE(help.output.find(program), std::string::npos) << help.output;
  }
}

TEST_F(Host, BadOptionsAreRefused) {
  EXPECT_EQ(Execute("train_loop --steps many 2>/dev/null").status, 2);
  EXPECT_EQ(Execute("train_loop --graph round 2>/dev/null").status, 2);
  EXPECT_EQ(Execute("server --rate fast 2>/dev/null").status, 2);
  EXPECT_EQ(Execute("replay --speed fast x 2>/dev/null").status, 2);
}

TEST_F(Host, TrainLoopIsDeterministic) {
  const Outcome first = Execute("train_loop --host-only --steps 5 --sleep-us 0");
  EXPECT_EQ(first.status, 0);
  EXPECT_NE(first.output.find("device: none, host only"), std::string::npos) << first.output;
  EXPECT_EQ(first.output, Execute("train_loop --host-only --steps 5 --sleep-us 0").output);
  EXPECT_NE(first.output, Execute("train_loop --host-only --steps 5 --sleep-us 0 --seed 2").output);
}

TEST_F(Host, TrainLoopKeepsItsPlan) { ExpectPlanKept("--host-only --steps 4 --kernels 3", ""); }

TEST_F(Simulated, TrainLoopKeepsItsPlan) {
  for (const char* graph : {"capture", "build", "none"}) {
    for (const char* lag : {"0", "3"}) {
      ExpectPlanKept(std::string("--steps 8 --graph ") + graph + " --lag " + lag, kSimLibraries);
    }
  }
  ExpectPlanKept("--steps 6 --lag 2 --kernel-us 200 --kernels 7", kSimLibraries);
}

// The simulated driver's own counters, which know nothing of the program's plan.
std::map<std::string, uint64_t> DriverCounts(const std::string& command) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("apps_test." + std::to_string(getpid()));
  const Outcome run = ExecuteSimulated("STEPAGENT_SIM_STATS='" + file.string() + "' " + command);
  EXPECT_EQ(run.status, 0) << run.output;
  std::ifstream lines(file);
  std::map<std::string, uint64_t> counts;
  std::string name;
  for (uint64_t value; lines >> name >> value;) counts[name] = value;
  std::filesystem::remove(file);
  return counts;
}

TEST_F(Simulated, TrainLoopPlanEqualsTheDriversCount) {
  for (const std::string options : {"--steps 7", "--steps 9 --lag 3", "--steps 4 --graph none"}) {
    const Json total = FindJson(Execute("train_loop --print-expected " + options).output)["total"];
    auto counts = DriverCounts("train_loop --sleep-us 0 " + options);
    EXPECT_EQ(total["launches"], counts["cuda.launches"] + counts["cuda.graph_launches"]);
    EXPECT_EQ(total["kernels"], counts["device.kernels"]) << options;
    EXPECT_EQ(total["copies"], counts["cuda.copies"]) << options;
    EXPECT_EQ(total["sets"], counts["cuda.sets"]) << options;
    EXPECT_EQ(total["syncs"], counts["cuda.syncs"]) << options;
    uint64_t bytes = 0;
    for (const auto& [kind, value] : total["copy_bytes_by_kind"].items()) {
      bytes += value.get<uint64_t>();
    }
    EXPECT_EQ(bytes, counts["cuda.copy_bytes"]) << options;
  }
}

TEST_F(Simulated, TrainLoopUsesTheDevice) {
  const Outcome run = ExecuteSimulated("train_loop --steps 3");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output.find("host only"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("3 steps done"), std::string::npos) << run.output;
}

// With kernels of 300 us a step takes the device 5.1 ms, and the host a fraction of that: it waits
// for the device, or has run ahead and pays at the end. Either way the run takes as long.
TEST_F(Simulated, TrainLoopTakesAsLongAsItsKernels) {
  for (const char* lag : {"0", "3"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome run = ExecuteSimulated(
        std::string("train_loop --steps 20 --sleep-us 0 --kernel-us 300 --lag ") + lag);
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_GE(elapsed, std::chrono::milliseconds(100)) << "lag " << lag;
  }
}

TEST_F(Host, ServerServesAndEnds) {
  const Outcome run = Execute("server --host-only --requests 40 --rate 2000 --workers 3");
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.output.find("served: 40 of 40"), std::string::npos) << run.output;
}

TEST_F(Host, ServerEndsOnSigterm) {
  // The ready line, not a pause, says when the signal may be sent.
  const Outcome run = Execute(
      "server --host-only --idle-first 60 | { read -r word pid number rest; "
      "kill -TERM ${number%,}; cat; }");
  EXPECT_NE(run.output.find("served: 0 of 0"), std::string::npos) << run.output;
}

TEST_F(Simulated, ServerServesAndEnds) {
  const Outcome run = ExecuteSimulated("server --requests 100 --rate 2000");
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.output.find("served: 100 of 100"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("host only"), std::string::npos) << run.output;
}

TEST_F(Simulated, ReplayIssuesEveryCall) {
  const Outcome run = ExecuteSimulated("replay '" STEPAGENT_TINY_RECORDING "'");
  EXPECT_EQ(run.status, 0) << run.output;
  for (const char* line :
       {"cudaLaunchKernel: 10\n", "cudaLaunchKernelExC: 2\n", "cuLaunchKernel: 2\n",
        "cudaMemcpyAsync: 6\n", "cudaMemsetAsync: 4\n", "cudaStreamSynchronize: 2\n",
        "cudaGraphLaunch: 2\n", "left out: cudaStreamIsCapturing: 2\n"}) {
    EXPECT_NE(run.output.find(line), std::string::npos) << line << run.output;
  }
}

TEST_F(Simulated, ReplayLoopsAndScales) {
  const Outcome run =
      ExecuteSimulated("replay --loop 3 --speed 0 --ranges no '" STEPAGENT_TINY_RECORDING "'");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("cudaLaunchKernel: 30\n"), std::string::npos) << run.output;
}

// What the tap on CUPTI saw, each kind in the form in which the recording's own is put below.
struct Seen {
  std::map<std::string, std::vector<uint64_t>> kernels;  // "stream name", durations in order
  std::map<std::string, uint64_t> copies, copy_bytes;    // by direction
  uint64_t sets = 0, set_bytes = 0;
};

Seen ReadTap(const std::filesystem::path& path) {
  static const std::map<int, std::string> kDirections = {
      {1, "HtoD"}, {2, "DtoH"}, {8, "DtoD"}, {9, "HtoH"}, {10, "PtoP"}};
  Seen seen;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, stream, name;
    uint64_t duration = 0, bytes = 0;
    words >> kind >> stream >> duration;
    if (kind == "kernel") {
      for (int skipped = 0; skipped < 4; skipped++) words >> name;
      std::getline(words >> std::ws, name);
      seen.kernels[stream + " " + name].push_back(duration);
    } else if (kind == "memcpy") {
      int direction = 0;
      words >> bytes >> direction;
      seen.copies[kDirections.at(direction)]++;
      seen.copy_bytes[kDirections.at(direction)] += bytes;
    } else {
      words >> bytes;
      seen.sets++;
      seen.set_bytes += bytes;
    }
  }
  return seen;
}

// The sum over all recorded steps; the recordings hold next to no work outside of them.
void ExpectReplayed(const Json& steps, const Seen& seen) {
  std::map<std::string, uint64_t> copies, copy_bytes;
  std::map<std::string, size_t> kernels;
  uint64_t sets = 0, set_bytes = 0;
  for (const Json& step : steps) {
    for (const auto& [direction, count] : step["copies"].items()) {
      copies[direction] += count.get<uint64_t>();
    }
    for (const auto& [direction, bytes] : step["copy_bytes"].items()) {
      copy_bytes[direction] += bytes.get<uint64_t>();
    }
    for (const auto& [stream, names] : step["kernels"].items()) {
      for (const auto& [name, count] : names.items()) {
        kernels[stream + " " + name] += count.get<size_t>();
      }
    }
    sets += step["sets"].get<uint64_t>();
    set_bytes += step["set_bytes"].get<uint64_t>();
  }
  EXPECT_EQ(copies, seen.copies);
  EXPECT_EQ(copy_bytes, seen.copy_bytes);
  EXPECT_EQ(sets, seen.sets);
  EXPECT_EQ(set_bytes, seen.set_bytes);
  std::map<std::string, size_t> seen_kernels;
  for (const auto& [name, durations] : seen.kernels) seen_kernels[name] = durations.size();
  EXPECT_EQ(kernels, seen_kernels);
}

void ExpectReplayTaps(const std::string& file, const std::string& options) {
  const std::filesystem::path tap =
      std::filesystem::temp_directory_path() / ("apps_tap." + std::to_string(getpid()));
  const Outcome run =
      ExecuteSimulated("CUDA_INJECTION64_PATH='" + kApps + "/activity_tap.so' ACTIVITY_TAP='" +
                       tap.string() + "' replay " + options + " '" + file + "'");
  EXPECT_EQ(run.status, 0) << run.output;
  const Json expected = FindJson(Execute("replay_expect.py '" + file + "'").output);
  ASSERT_TRUE(expected.is_object());
  ExpectReplayed(expected["steps"], ReadTap(tap));
  std::filesystem::remove(tap);
}

TEST_F(Simulated, ReplayGivesTheRecordedWorkBack) {
  for (const char* name : {"resnet_1gpu_5steps.json.gz", "recsys_128gpu_2steps.json.gz"}) {
    const char* folder = std::getenv("STEPAGENT_RECORDED");
    const std::string file =
        std::string(folder != nullptr ? folder : STEPAGENT_RECORDED_DIR) + "/" + name;
    if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
    ExpectReplayTaps(file, "");
    ExpectReplayTaps(file, "--speed 0");
  }
}

TEST_F(Simulated, ReplayKeepsDurations) {
  const std::filesystem::path tap =
      std::filesystem::temp_directory_path() / ("apps_tap." + std::to_string(getpid()));
  const Outcome run =
      ExecuteSimulated("CUDA_INJECTION64_PATH='" + kApps + "/activity_tap.so' ACTIVITY_TAP='" +
                       tap.string() + "' replay '" STEPAGENT_TINY_RECORDING "'");
  EXPECT_EQ(run.status, 0) << run.output;
  auto kernels = ReadTap(tap).kernels;
  std::filesystem::remove(tap);
  EXPECT_EQ(kernels["20 triton_fused"], (std::vector<uint64_t>{12345, 12345}));
  EXPECT_EQ(kernels["7 graph_second"], (std::vector<uint64_t>{21000, 21000}));
  EXPECT_EQ(kernels["7 late_kernel"], (std::vector<uint64_t>{300000, 300000}));
  EXPECT_EQ(kernels["7 void forward<float>(float*, int)"],
            (std::vector<uint64_t>{40125, 41125, 42125, 40125, 41125, 42125}));
}

TEST_F(Host, ReplayExpectKnowsSteps) {
  const Outcome run =
      Execute("replay_expect.py --index 1 --durations '" STEPAGENT_TINY_RECORDING "'");
  ASSERT_EQ(run.status, 0) << run.output;
  const Json step = FindJson(run.output)["steps"][0];
  EXPECT_EQ(step["step"], 8);
  EXPECT_EQ(step["calls"]["cudaLaunchKernel"], 4);
  EXPECT_EQ(step["kernels"]["7"]["late_kernel"], 1);
  EXPECT_EQ(step["copy_bytes"]["HtoD"], 65536 + 4096);
  EXPECT_EQ(step["durations"]["triton_fused"], Json::array({12345}));
  EXPECT_FALSE(step["kernels"]["7"].contains("outside_kernel"));
}

TEST_F(Host, TrainPyTrains) {
  const Outcome run = Execute(TrainPy() + " --host-only --steps 3 --sleep-us 0");
  if (run.status == kSkipped) GTEST_SKIP() << run.output;
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.output.find("3 steps done"), std::string::npos) << run.output;
}

TEST_F(Simulated, TrainPyTrains) {
#ifdef STEPAGENT_SANITIZED
  GTEST_SKIP() << "the interpreter cannot load a sanitized library";
#endif
  const Outcome run = ExecuteSimulated(TrainPy() + " --steps 3 --sleep-us 0");
  if (run.status == kSkipped) GTEST_SKIP() << run.output;
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output.find("host only"), std::string::npos) << run.output;
}

struct Case {
  const char* name;
  const char* command;
  int status;
  const char* output;  // exact, or null
};

void PrintTo(const Case& victim, std::ostream* out) { *out << victim.command; }

class HostVictim : public testing::TestWithParam<Case> {};
class SimulatedVictim : public testing::TestWithParam<Case> {};

void ExpectCase(const Case& victim, const std::string& libraries) {
  const Outcome run = Execute(victim.command, libraries);
  EXPECT_EQ(run.status, victim.status) << victim.command << "\n" << run.output;
  if (victim.output != nullptr) {
    EXPECT_EQ(run.output, victim.output) << victim.command;
  }
}

TEST_P(HostVictim, Behaves) {
#ifdef STEPAGENT_TSAN
  if (GetParam().name == std::string("ExitMainEnds")) {
    GTEST_SKIP() << "under the thread sanitizer a process whose main thread has ended hangs";
  }
#endif
  ExpectCase(GetParam(), "");
}

TEST_P(SimulatedVictim, Behaves) {
  if (!HasSimulator()) GTEST_SKIP() << "the simulated libraries are not built";
  ExpectCase(GetParam(), kSimLibraries);
}

std::string CaseName(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// A signal's death is the shell's 128 + signal, since the shell runs the program as its child.
constexpr Case kHostCases[] = {
    {"NvtxLoop", "nvtx_loop all 3", 0, "nvtx_loop: all, 3 steps done\n"},
    {"NvtxReturnsWithoutTool", "nvtx_loop ascii 1 --returns", 0,
     "push -2\npush inner -2\npop inner -2\npop -2\nnvtx_loop: ascii, 1 steps done\n"},
    {"ForkStorm", "fork_storm --children 50 --steps-only", 0,
     "fork_storm: 50 children, 0 hung, 0 failed\n"},
    {"CloseAll", "close_all 3", 0, "close_all: 3 rounds, own bytes only\n"},
    {"CloseAllStd", "close_all 3 0 --std", 0, ""},
    {"ExitReturn", "exit_ways return 2", 5, "2 steps, leaving by return\n"},
    {"ExitUnderscore", "exit_ways _exit 2", 5, "2 steps, leaving by _exit\n"},
    {"ExitQuick", "exit_ways quick_exit 2", 5, "2 steps, leaving by quick_exit\n"},
    {"ExitAbort", "exit_ways abort 2 2>/dev/null; exit $?", 134, nullptr},
    {"ExitSegv", "exit_ways segv 2 2>/dev/null; exit $?", 139, nullptr},
    {"ExitTerm", "exit_ways term 2 2>/dev/null; exit $?", 143, nullptr},
    {"ExitKill", "exit_ways kill 2 2>/dev/null; exit $?", 137, nullptr},
    {"ExitExec", "exit_ways exec 2", 5, "2 steps, leaving by exec\n3 steps, leaving by return\n"},
    {"ExitThread", "exit_ways thread_exit 2", 5, "2 steps, leaving by thread_exit\n"},
    {"ExitMainEnds", "exit_ways main_ends 2", 0,
     "2 steps, leaving by main_ends\nlast thread ends\n"},
    {"ExitBusyThread", "exit_ways busy_thread 2", 5, "2 steps, leaving by busy_thread\n"},
    {"ExitAtexit", "exit_ways atexit_nvtx 2", 5, "2 steps, leaving by atexit_nvtx\n"},
    {"ExitKey", "exit_ways key_nvtx 2", 5, "2 steps, leaving by key_nvtx\n"},
    {"ManyThreads", "many_threads --short 200 --alive 64", 0,
     "many_threads: 200 short, 64 alive\n"},
    {"ManyThreadsCancelled", "many_threads --short 0 --alive 16 --cancel --blocked", 0,
     "many_threads: 0 short, 16 alive, cancelled\n"},
    {"SignalBefore", "signal_mix before", 0, "before: 10 handled, disposition: own handler\n"},
    {"SignalAfter", "signal_mix after", 0, "after: 10 handled, disposition: own handler\n"},
    {"SignalIgnore", "signal_mix ignore", 0, "ignore: 0 handled, disposition: ignored\n"},
    {"SignalReset", "signal_mix reset", 0, "reset: 0 handled, disposition: default\n"},
    {"SignalFd", "signal_mix signalfd", 0, "signalfd: 10 received\n"},
    {"SignalWait", "signal_mix sigwait", 0, "sigwait: 10 received\n"},
    {"SignalBlocked", "signal_mix blocked", 0, "blocked: pending\n"},
    {"SignalStorm", "signal_mix storm", 0, "storm: 10000 sent, own handler ran, alive\n"},
    {"SignalEintr", "signal_mix eintr", 0,
     "nanosleep: -1 Interrupted system call\nread: -1 Interrupted system call\n"
     "poll: -1 Interrupted system call\nalarms: 3\n"},
    {"EnvFds", "env_fds --only threads", 0, nullptr},
    {"SpawnVfork", "spawn_ways vfork 2", 0,
     "parent: 2 steps\nchild: 2 steps\nvfork: status 0\ncanary: alive\nparent again: 2 steps\n"},
    {"SpawnDaemon", "spawn_ways daemon 2", 0,
     "parent: 2 steps\ngrandchild: 2 steps\ndaemon: status 0\ngrandchild: done\n"
     "parent again: 2 steps\n"},
    {"SpawnThreeForks", "spawn_ways three_forks 1", 0,
     "parent: 1 steps\nforked child: 1 steps\nfork: status 0\nforked child: 1 steps\n"
     "fork: status 0\nforked child: 1 steps\nfork: status 0\nparent again: 1 steps\n"},
    {"EarlyRange", "early_range", 0, "early_range: 7 steps\n"},
    {"PluginHost", "plugin_host", 0, "plugin_host: 10 rounds\n"},
    {"StaticProgram", "static_program", 7, "static_program\n"},
    {"SandboxDeniesSockets", "sandboxed --deny socket,memfd --after 3 --steps 6", 0,
     "sandboxed: 6 steps\n"},
    {"SandboxFewFiles", "sandboxed --nofile 16 -- env_fds --only threads --self --steps 1", 0,
     nullptr},
    {"HostileNames", "hostile_names", 0, "hostile_names: 5 steps\n"},
};
INSTANTIATE_TEST_SUITE_P(Victims, HostVictim, testing::ValuesIn(kHostCases), CaseName);

constexpr Case kSimulatedCases[] = {
    {"ForkStorm", "fork_storm --children 50", 0, "fork_storm: 50 children, 0 hung, 0 failed\n"},
    {"RivalAlone", "rival_cupti --at 3 --until 8 --steps 10", 0,
     "rival: subscribe at a step: 0\nrival: enable kernels: 0\nrival: unsubscribe: 0\n"
     "rival: 5 kernel records of 10 steps\n"},
    {"RivalEarly", "rival_cupti --early --steps 4", 0, nullptr},
    {"GraphBuilt", "graph_heavy --nodes 50 --steps 5", 0,
     "graph_heavy: 5 launches of 50 kernels\n"},
    {"GraphCaptured", "graph_heavy --nodes 50 --steps 5 --capture", 0,
     "graph_heavy: 5 launches of 50 kernels\n"},
    {"MultiDevice", "STEPAGENT_SIM_DEVICES=3 multi_device 3 4", 0,
     "multi_device: 3 devices, 4 steps\n"},
    {"NeverEnding", "never_ending_kernel 2 6", 0,
     "never_ending_kernel: 6 steps, one kernel left running\n"},
    {"DriverDlsym", "driver_paths dlsym 4", 0, "driver_paths: dlsym, 12 launches\n"},
    {"DriverProcAddress", "driver_paths proc_address 4", 0,
     "driver_paths: proc_address, 12 launches\n"},
    {"DriverPerThread", "driver_paths per_thread 4", 0, "driver_paths: per_thread, 12 launches\n"},
    {"ProfilerRuntime", "profiler_api 2 4 6", 0, "profiler_api: start 0, stop 0, 6 steps\n"},
    {"ProfilerDriver", "profiler_api 2 4 6 --driver", 0,
     "profiler_api: start 0, stop 0, 6 steps\n"},
    {"RuntimeLoop", "runtime_loop --mixed --failing", 0, "runtime_loop: 12 steps done\n"},
};
INSTANTIATE_TEST_SUITE_P(Victims, SimulatedVictim, testing::ValuesIn(kSimulatedCases), CaseName);

}  // namespace
