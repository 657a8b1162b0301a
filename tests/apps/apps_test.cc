// The programs of tests/apps by themselves: no agent, on the host and on the simulated device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "run_program.h"

namespace stepagent::apps {
namespace {

using Json = nlohmann::json;

const std::string kApps = STEPAGENT_APPS_DIR;

// An interpreter that has the distribution's python3-numba.
std::string TrainPy() {
  const char* python = std::getenv("STEPAGENT_TEST_PYTHON");
  return std::string(python != nullptr ? python : "/usr/bin/python3") + " '" + kApps + "/train.py'";
}

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
      ExpectPlanKept(std::string("--steps 8 --graph ") + graph + " --lag " + lag,
                     SimulatedLibraries());
    }
  }
  ExpectPlanKept("--steps 6 --lag 2 --kernel-us 200 --kernels 7", SimulatedLibraries());
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

}  // namespace
}  // namespace stepagent::apps
