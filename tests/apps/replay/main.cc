// replay: issues a recorded workload again, call by call, on the simulated device.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "player.h"
#include "recording.h"
#include "stage.h"
#include "timeline.h"

namespace stepagent::replay {
namespace {

struct Settings {
  std::string file;
  std::string ranges = "yes";
  PlayOptions play;
  uint64_t max_calls = 20'000'000;
};

void LeaveOutUnsupported(const Runtime& runtime, Recording& recording) {
  const auto is_missing = [&](const Call& call) {
    if (runtime.Has(call.id)) return false;
    ++recording.left_out[CallName(call.id)];
    return true;
  };
  std::erase_if(recording.calls, is_missing);
}

void PrintSummary(const Recording& recording, const CallCounts& counts) {
  std::printf("replayed: %zu threads, %zu streams, %zu annotations\n", recording.threads.size(),
              recording.streams.size(), recording.annotations.size());
  for (size_t i = 0; i < counts.size(); i++) {
    if (counts[i] == 0) continue;
    std::printf("%s: %llu\n", CallName(static_cast<CallId>(i)),
                static_cast<unsigned long long>(counts[i]));
  }
  for (const auto& [name, count] : recording.left_out) {
    std::printf("left out: %s: %llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
}

void Run(const Settings& settings) {
  const Runtime runtime = Runtime::Open();
  Recording recording = LoadRecording(settings.file, settings.max_calls);
  LeaveOutUnsupported(runtime, recording);
  const std::vector<Action> timeline = MakeTimeline(recording, settings.ranges == "yes");
  const Stage stage(runtime, recording);
  Player player(recording, timeline, stage, settings.play);
  const CallCounts counts = player.Play();
  // The recording ends when its calls do; the device may still be at work.
  Check(runtime, runtime.cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  PrintSummary(recording, counts);
}

}  // namespace
}  // namespace stepagent::replay

int main(int argc, char** argv) {
  stepagent::replay::Settings settings;
  CLI::App app{"Issues a recorded Kineto workload again: same calls, threads, streams and pace"};
  app.add_option("file", settings.file, "Kineto JSON, plain or gzip")->required();
  app.add_option("--speed", settings.play.speed, "pace of the host; 0 is as fast as it goes")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--loop", settings.play.loops, "how often")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--ranges", settings.ranges, "annotations as NVTX ranges")
      ->check(CLI::IsMember({"yes", "no"}))
      ->capture_default_str();
  app.add_option("--max-calls", settings.max_calls, "refuse recordings with more calls")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    stepagent::replay::Run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay: %s: %s\n", settings.file.c_str(), error.what());
    return 1;
  }
  return 0;
}
