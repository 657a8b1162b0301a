// What the stack of one launch costs its thread: ours, libunwind's unw_backtrace alone and glibc's
// backtrace(), from the same depths of a library built with frame pointers and of one without.
//
// Ours is the walk and the table: the id of a stack that was there before. Each thread is one of
// our own, so that nothing of the benchmark's library is in the stack. After the rows the ratios
// are printed.
#include <benchmark/benchmark.h>
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "agent/unwind/stack_capture.h"
#include "agent/unwind/unwinder.h"
#include "tests/bench/support/call_depth.h"
#include "tests/bench/support/measure.h"

namespace stepagent::bench {
namespace {

using unwind::StackCapture;
using unwind::StackTable;
using CallDepth = int (*)(int, void (*)(void*), void*);

// What lies around the library's own calls: the body, the thread's start.
constexpr int kAround = 5;

uint32_t OursFrames() { return StackCapture::table().Get(StackCapture::Take()).count; }
uint32_t LibraryFrames() {
  uintptr_t frames[256];
  return unwind::Unwinder::Walk(frames, 256);
}
uint32_t GlibcFrames() {
  void* frames[256];
  return static_cast<uint32_t>(backtrace(frames, 256));
}

void TakeOurs() { benchmark::DoNotOptimize(StackCapture::Take()); }
void TakeLibrary() { benchmark::DoNotOptimize(LibraryFrames()); }
void TakeGlibc() { benchmark::DoNotOptimize(GlibcFrames()); }

struct Job {
  benchmark::State* state;
  void (*take)();
  uint32_t (*frames)();
  CallDepth call;
  int depth;
};

void Measure(void* argument) {
  const Job& job = *static_cast<Job*>(argument);
  job.take();  // what a thread's first stack costs is not looked at here
  for (auto _ : *job.state) job.take();
  job.state->counters["frames"] = job.frames();
}

void* ThreadBody(void* argument) {
  Pin(0);
  const Job& job = *static_cast<Job*>(argument);
  benchmark::DoNotOptimize(job.call(job.depth, Measure, argument));
  return nullptr;
}

void Run(benchmark::State& state, void (*take)(), uint32_t (*frames)(), CallDepth call, int depth) {
  Job job{&state, take, frames, call, depth - kAround};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, ThreadBody, &job) != 0) {
    state.SkipWithError("pthread_create");
    return;
  }
  pthread_join(thread, nullptr);
}

void Register(int depth) {
  struct Variant {
    const char* name;
    void (*take)();
    uint32_t (*frames)();
    CallDepth call;
  };
  static constexpr Variant kVariants[] = {
      {"frame_pointers", TakeOurs, OursFrames, StepagentCallDepth},
      {"without_frame_pointers", TakeOurs, OursFrames, StepagentCallDepthWithout},
      {"unw_backtrace", TakeLibrary, LibraryFrames, StepagentCallDepthWithout},
      {"backtrace", TakeGlibc, GlibcFrames, StepagentCallDepthWithout},
  };
  for (const Variant& variant : kVariants) {
    const std::string name = "stack_" + std::to_string(depth) + "/" + variant.name;
    benchmark::RegisterBenchmark(name.c_str(), [&variant, depth](benchmark::State& state) {
      Run(state, variant.take, variant.frames, variant.call, depth);
    });
  }
}

// The console's table, and what the ratios are made of.
class Ratios : public benchmark::ConsoleReporter {
 public:
  Ratios() : ConsoleReporter(OO_Tabular) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const std::string name = run.run_name.function_name;
      times_[name.substr(0, name.find('/'))][name.substr(name.find('/') + 1)].push_back(
          run.GetAdjustedCPUTime());
    }
    ConsoleReporter::ReportRuns(runs);
  }
  void Print() {
    for (auto& [row, variants] : times_) {
      const double ours = Median(&variants["frame_pointers"]);
      const double without = Median(&variants["without_frame_pointers"]);
      for (const char* peer : {"unw_backtrace", "backtrace"}) {
        const double theirs = Median(&variants[peer]);
        std::printf("%s: %s takes %.1f times ours with frame pointers, %.1f times without\n",
                    row.c_str(), peer, theirs / ours, theirs / without);
      }
    }
  }

 private:
  static double Median(std::vector<double>* times) {
    if (times->empty()) return 0;
    std::sort(times->begin(), times->end());
    return (*times)[times->size() / 2];
  }
  std::map<std::string, std::map<std::string, std::vector<double>>> times_;
};

bool AsksForAFormat(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* argument) {
    return std::string(argument).starts_with("--benchmark_format");
  });
}

}  // namespace
}  // namespace stepagent::bench

int main(int argc, char** argv) {
  using namespace stepagent;
  const std::string why = unwind::StackCapture::Prepare();
  if (!why.empty()) return std::fprintf(stderr, "stack_bench: %s\n", why.c_str()), 1;
  const bool is_for_a_reader = bench::AsksForAFormat(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const int depth : {20, 60}) bench::Register(depth);
  if (is_for_a_reader) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    bench::Ratios ratios;
    benchmark::RunSpecifiedBenchmarks(&ratios);
    ratios.Print();
  }
  return 0;
}
