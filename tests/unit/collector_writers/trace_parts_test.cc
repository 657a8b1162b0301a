// Where a trace is cut, and that nothing is lost or doubled by it.
#include "collector/writers/trace_parts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "collector/model/cycle_slice.h"
#include "collector/writers/chrome.h"
#include "collector/writers/perfetto.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::writers {
namespace {

using Json = nlohmann::ordered_json;
using ::stepagent::testing::CycleMaker;
using ::stepagent::testing::Folder;

constexpr int kKernelsPerStep = 40;

// A range over all steps, one in each, kernels with long names, one copy without a call.
model::Cycle Many(int steps) {
  CycleMaker make;
  const uint32_t thread = make.Thread(100, "main");
  const uint32_t lane = make.Lane(0, 1, 7);
  const uint32_t shape = make.Shape("kernel_of_some_library_with_a_long_name<float, 128, true>");
  make.AddDevice(0);
  model::TimeNs at = 1'000'000;
  uint32_t correlation = 1;
  make.Range("epoch", thread, at - 500, at + steps * 100'000 + 500);
  for (int step = 0; step < steps; ++step, at += 100'000) {
    make.Step(static_cast<uint64_t>(step), at, at + 90'000, thread);
    make.Range("forward", thread, at + 10, at + 80'000);
    for (int k = 0; k < kKernelsPerStep; ++k, ++correlation) {
      const model::TimeNs begin = at + 100 + k * 1000;
      const int32_t call = make.Call("cudaLaunchKernel", model::CallClass::kLaunch, thread, begin,
                                     begin + 500, correlation);
      // Later than its call, for the last ones of a step beyond the step's end.
      make.Kernel(shape, lane, begin + 60'000, begin + 60'900, call);
    }
    make.Copy(1, lane, at + 59'000, at + 59'500, 4096, model::kNoIndex);
  }
  model::Cycle cycle = make.Finish();
  cycle.session.formats = {"chrome", "perfetto"};
  return cycle;
}

size_t ChromeBytes(const model::Cycle& cycle) {
  const Folder folder;
  const WriteResult result = ChromeWriter().Write(cycle, {folder.path(), folder.path(), "s.0", {}});
  EXPECT_EQ(result.files.size(), 1U);
  return testing::Gunzip(testing::ReadFile(result.files.at(0).path)).size();
}

struct Split {
  explicit Split(model::Cycle cycle, uint64_t limit) {
    cycle.session.settings["max-trace-bytes"] = std::to_string(limit);
    result = ChromeWriter().Write(cycle, {folder / "traces", folder / "traces", "stem.0000", {}});
    EXPECT_TRUE(result.ok) << result.error;
    for (const WrittenFile& file : result.files) {
      texts.push_back(testing::Gunzip(testing::ReadFile(file.path)));
      docs.push_back(Json::parse(texts.back()));
    }
  }
  struct Made : Folder {
    Made() { std::filesystem::create_directory(*this / "traces"); }
  } folder;
  WriteResult result;
  std::vector<std::string> texts;
  std::vector<Json> docs;
};

// How often each complete row is there, without what cutting may change.
std::map<std::string, int> Rows(const Json& doc, const std::set<std::string>& categories) {
  std::map<std::string, int> rows;
  for (const Json& e : doc.at("traceEvents")) {
    if (e.at("ph") != "X" || !categories.contains(e.value("cat", ""))) continue;
    ++rows[e.at("cat").dump() + e.at("name").dump() + e.at("ts").dump() + e.at("dur").dump() +
           e.at("tid").dump()];
  }
  return rows;
}

TEST(TraceParts, TheEstimateIsNearAndRatherAbove) {
  for (const int steps : {5, 50}) {
    const model::Cycle cycle = Many(steps);
    const double ratio =
        static_cast<double>(EstimateChromeBytes(cycle)) / static_cast<double>(ChromeBytes(cycle));
    EXPECT_GT(ratio, 1.0) << steps;
    EXPECT_LT(ratio, 1.5) << steps;
  }
}

TEST(TraceParts, OneFileWhereItFits) {
  const model::Cycle cycle = Many(5);
  EXPECT_EQ(PlanParts(cycle, 0).size(), 1U);
  EXPECT_EQ(PlanParts(cycle, EstimateChromeBytes(cycle)).size(), 1U);
  EXPECT_TRUE(SizeNotes(cycle).empty());
  EXPECT_EQ(PlanParts(model::Cycle(), 1).size(), 1U);
}

TEST(TraceParts, PartsAreWholeStepsWithinTheLimit) {
  const model::Cycle cycle = Many(20);
  const uint64_t limit = EstimateChromeBytes(cycle) / 3;
  const std::vector<TracePart> parts = PlanParts(cycle, limit);
  ASSERT_GE(parts.size(), 3U);
  EXPECT_EQ(parts.front().first_step, 0U);
  EXPECT_EQ(parts.back().last_step, cycle.steps.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_LT(parts[i].first_step, parts[i].last_step);
    EXPECT_LE(parts[i].estimated_bytes, limit);
    if (i > 0) {
      EXPECT_EQ(parts[i].first_step, parts[i - 1].last_step);
    }
  }
}

TEST(TraceParts, EveryRowIsInExactlyOnePart) {
  const std::set<std::string> kExact{"kernel", "gpu_memcpy", "cuda_runtime", "cuda_driver"};
  const model::Cycle cycle = Many(20);
  const Split whole(cycle, 0), split(cycle, EstimateChromeBytes(cycle) / 3);
  ASSERT_EQ(whole.docs.size(), 1U);
  ASSERT_GE(split.docs.size(), 3U);
  std::map<std::string, int> joined;
  uint64_t steps = 0;
  for (size_t i = 0; i < split.docs.size(); ++i) {
    EXPECT_LE(split.texts[i].size(), EstimateChromeBytes(cycle) / 3);
    for (const auto& [row, count] : Rows(split.docs[i], kExact)) joined[row] += count;
    std::map<uint64_t, int> flows;
    for (const Json& e : split.docs[i].at("traceEvents")) {
      if (e.at("ph") == "s" || e.at("ph") == "f") ++flows[e.at("id").get<uint64_t>()];
      steps += e.at("name").get<std::string>().starts_with("ProfilerStep#") ? 1 : 0;
    }
    for (const auto& [id, ends] : flows) EXPECT_EQ(ends, 2) << id;
  }
  EXPECT_EQ(joined, Rows(whole.docs[0], kExact));
  EXPECT_EQ(steps, 20U);
}

std::pair<model::Cycle, model::Cycle> Halves(const model::Cycle& cycle) {
  const std::vector<model::StepSpans> steps =
      model::SpansOfSteps(cycle, [](const auto&, size_t) {});
  const size_t middle = steps.size() / 2;
  model::StepSlicer slicer(cycle);
  model::StepSpans spans[2];
  for (size_t i = 0; i < steps.size(); ++i) spans[i < middle ? 0 : 1].Join(steps[i]);
  const model::Cycle first = slicer.Next(middle, spans[0]);
  return {first, slicer.Next(steps.size(), spans[1])};
}

// A part is read as the whole would be: what it came from, how it ended, which figures are absent.
TEST(TraceParts, APartKeepsWhatIsKnownOfTheWhole) {
  model::Cycle cycle = Many(4);
  cycle.is_from_trace = true;
  cycle.killed_by_signal = 9;
  cycle.exit_status = 3;
  const auto [first, second] = Halves(cycle);
  for (const model::Cycle* part : {&first, &second}) {
    EXPECT_TRUE(part->is_from_trace);
    EXPECT_EQ(part->killed_by_signal, 9U);
    EXPECT_EQ(part->exit_status, 3U);
  }
}

// Work that ran in another step's time, calls outside steps and ranges over many steps: each part
// finds its own without reading the whole, so what lies far away must be found too.
TEST(TraceParts, WhatLiesFarFromItsStepIsFound) {
  model::Cycle cycle = Many(6);
  const model::TimeNs end = cycle.steps.back().end_ns;
  std::swap(cycle.kernels.front(), cycle.kernels.back());
  model::Call outside = cycle.calls.front();
  outside.step = model::kNoStep;
  outside.begin_ns = end - 1;
  cycle.calls.insert(cycle.calls.begin(), outside);
  for (model::Kernel& kernel : cycle.kernels) kernel.call += kernel.call >= 0 ? 1 : 0;
  for (model::Copy& copy : cycle.copies) copy.call += copy.call >= 0 ? 1 : 0;
  const auto [first, second] = Halves(cycle);
  EXPECT_EQ(first.calls.size() + second.calls.size(), cycle.calls.size());
  EXPECT_EQ(first.kernels.size() + second.kernels.size(), cycle.kernels.size());
  for (const model::Cycle* part : {&first, &second}) {
    for (const model::Kernel& kernel : part->kernels) {
      ASSERT_GE(kernel.call, 0);
      EXPECT_EQ(part->calls[static_cast<size_t>(kernel.call)].correlation, kernel.correlation);
    }
  }
  EXPECT_EQ(second.calls.front().begin_ns, outside.begin_ns);
}

TEST(TraceParts, ARangeAcrossACutIsInBothAndMarked) {
  const model::Cycle cycle = Many(4);
  const auto [first, second] = Halves(cycle);
  const auto epoch = [&](const model::Cycle& part) {
    for (const model::Range& range : part.ranges) {
      if (part.Text(range.name) == "epoch") return range;
    }
    return model::Range();
  };
  EXPECT_EQ(epoch(first).begin_ns, epoch(cycle).begin_ns);
  EXPECT_TRUE(epoch(first).cut_at_end);
  EXPECT_EQ(epoch(first).end_ns, cycle.steps[2].begin_ns);
  EXPECT_EQ(epoch(second).begin_ns, cycle.steps[2].begin_ns);
  EXPECT_TRUE(epoch(second).cut_at_begin);
  EXPECT_EQ(epoch(second).end_ns, epoch(cycle).end_ns);
  EXPECT_EQ(first.kernels.size() + second.kernels.size(), cycle.kernels.size());
  for (const model::Kernel& kernel : second.kernels) {
    ASSERT_GE(kernel.call, 0);
    EXPECT_EQ(second.calls[static_cast<size_t>(kernel.call)].correlation, kernel.correlation);
    EXPECT_GE(kernel.step, 0);
    EXPECT_LT(kernel.step, 2);
  }
}

TEST(TraceParts, TheSameCycleGivesTheSameParts) {
  const model::Cycle cycle = Many(20);
  const uint64_t limit = EstimateChromeBytes(cycle) / 3;
  const Split one(cycle, limit), two(cycle, limit);
  ASSERT_EQ(one.result.files.size(), two.result.files.size());
  for (size_t i = 0; i < one.result.files.size(); ++i) {
    EXPECT_EQ(one.result.files[i].sha256, two.result.files[i].sha256);
    const std::string folder = i == 0 ? "traces" : "traces.part" + std::to_string(i);
    EXPECT_EQ(one.result.files[i].path, one.folder / (folder + "/stem.0000.pt.trace.json.gz"));
  }
}

TEST(TraceParts, NotesSayItBeforeAViewerChokes) {
  model::Cycle cycle = Many(20);
  cycle.session.formats = {"chrome"};
  cycle.session.settings["max-trace-bytes"] = std::to_string(EstimateChromeBytes(cycle) / 3);
  std::vector<model::Note> notes = SizeNotes(cycle);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].code, "trace_split");
  EXPECT_THAT(notes[0].text, ::testing::HasSubstr("kB at most (--max-trace-bytes), cut where"));
  cycle.session.settings["max-trace-bytes"] = "100";  // less than one step
  notes = SizeNotes(cycle);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[1].code, "trace_too_large");
  // No part is said to be within a limit that it is not within.
  EXPECT_THAT(notes[0].text,
              ::testing::HasSubstr("at most (--max-trace-bytes) but for 20 with a single step that "
                                   "is larger, up to about "));
  cycle.session.formats = {"perfetto"};
  notes = SizeNotes(cycle);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].code, "perfetto_split");
  EXPECT_THAT(notes[0].text, ::testing::HasSubstr("in 20 files (trace.part1.pftrace and so on)"));
  EXPECT_THAT(notes[0].text, ::testing::HasSubstr("cut where steps 1, 2, 3,"));
  cycle.session.formats = {"sqlite"};
  EXPECT_TRUE(SizeNotes(cycle).empty());
}

// The stack of a launch is text in each row of Chrome's: it counts.
TEST(TraceParts, StacksCount) {
  model::Cycle cycle = Many(5);
  const uint64_t without = EstimateChromeBytes(cycle);
  model::Frame frame;
  cycle.strings.push_back(std::string(1000, 'f'));
  frame.name = static_cast<model::StringId>(cycle.strings.size() - 1);
  cycle.stacks.push_back({frame});
  for (model::Call& call : cycle.calls) call.stack = 0;
  EXPECT_GE(EstimateChromeBytes(cycle), without + 1000 * cycle.calls.size());
  const double ratio =
      static_cast<double>(EstimateChromeBytes(cycle)) / static_cast<double>(ChromeBytes(cycle));
  EXPECT_GT(ratio, 1.0);
  EXPECT_LT(ratio, 1.5);
}

std::vector<WrittenFile> PerfettoFiles(const Folder& folder, model::Cycle cycle, uint64_t limit) {
  cycle.session.settings["max-trace-bytes"] = std::to_string(limit);
  const WriteResult result =
      PerfettoWriter().Write(cycle, {folder.path(), folder.path(), "s.0", {}});
  EXPECT_TRUE(result.ok) << result.error;
  return result.files;
}

TEST(PerfettoParts, TheEstimateIsNearAndRatherAbove) {
  for (const int steps : {5, 50}) {
    const Folder folder;
    const model::Cycle cycle = Many(steps);
    const std::vector<WrittenFile> files = PerfettoFiles(folder, cycle, 0);
    ASSERT_EQ(files.size(), 1U);
    const double ratio = static_cast<double>(PlanPerfettoParts(cycle, 0).front().estimated_bytes) /
                         static_cast<double>(files[0].bytes);
    EXPECT_GT(ratio, 1.0) << steps;
    EXPECT_LT(ratio, 1.8) << steps;
  }
}

TEST(PerfettoParts, WholeStepsInFilesOfTheirOwn) {
  const Folder folder;
  const model::Cycle cycle = Many(20);
  const uint64_t limit = PlanPerfettoParts(cycle, 0).front().estimated_bytes / 2;
  const std::vector<TracePart> parts = PlanPerfettoParts(cycle, limit);
  const std::vector<WrittenFile> files = PerfettoFiles(folder, cycle, limit);
  ASSERT_GE(files.size(), 3U);
  ASSERT_EQ(files.size(), parts.size());
  uint64_t rows = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name =
        i == 0 ? "trace.pftrace" : "trace.part" + std::to_string(i) + ".pftrace";
    EXPECT_EQ(files[i].path, folder / name);
    EXPECT_LE(files[i].bytes, limit);
    EXPECT_EQ(std::filesystem::file_size(files[i].path), files[i].bytes);
    EXPECT_EQ(parts[i].first_step, i == 0 ? 0 : parts[i - 1].last_step);
    rows += parts[i].device_rows;
  }
  EXPECT_EQ(parts.back().last_step, cycle.steps.size());
  EXPECT_EQ(rows, cycle.kernels.size() + cycle.copies.size());
}

// A browser tab's limit is a number of rows, long before it is one of bytes.
TEST(PerfettoParts, ViewersLimitRows) {
  model::Cycle cycle = Many(3);
  const std::vector<model::Kernel> some = cycle.kernels;
  while (cycle.kernels.size() < kManyDeviceRows + some.size()) {
    cycle.kernels.insert(cycle.kernels.end(), some.begin(), some.end());
  }
  std::vector<TracePart> parts = PlanPerfettoParts(cycle, kMaxTraceBytes);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_LE(parts[0].device_rows, kManyDeviceRows);
  EXPECT_EQ(PlanPerfettoParts(cycle, 0).size(), 1U);
  cycle.session.formats = {"perfetto"};
  EXPECT_EQ(SizeNotes(cycle).at(0).code, "perfetto_split");
  cycle.session.settings["max-trace-bytes"] = "0";
  EXPECT_EQ(SizeNotes(cycle).at(0).code, "many_device_rows");
}

}  // namespace
}  // namespace stepagent::writers
