// The parts of replay that need no device: times, loading, and the order of actions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

#include "kineto_reader.h"
#include "recording.h"
#include "timeline.h"

namespace stepagent::replay {
namespace {

TEST(KinetoReader, KeepsNanosecondsOfUnixTimes) {
  EXPECT_EQ(MicrosecondsToNs("1712195495505543.2"), 1712195495505543200);
  EXPECT_EQ(MicrosecondsToNs("1712195495505543.001"), 1712195495505543001);
  EXPECT_EQ(MicrosecondsToNs("17.12345"), 17123);
  EXPECT_EQ(MicrosecondsToNs("-1.5"), -1500);
  EXPECT_EQ(MicrosecondsToNs("3"), 3000);
  EXPECT_EQ(MicrosecondsToNs("1.5e3"), 1500000);
}

TEST(KinetoReader, SkipsWhatItDoesNotKnow) {
  std::istringstream text(
      R"({"a": [{"traceEvents": [1]}], "traceEvents": [)"
      R"({"ph": "X", "args": {"x": {"correlation": 5}, "correlation": 7, "grid": [1, 2, 3],)"
      R"( "y": [[4]]}, "name": "n", "ts": 2, "nested": {"name": "m", "ts": 9}}]})");
  std::vector<KinetoEvent> events;
  ReadKineto(text, [&events](const KinetoEvent& event) { events.push_back(event); });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].correlation, 7);
  EXPECT_EQ(events[0].grid[2], 3);
  EXPECT_EQ(events[0].name, "n");
  EXPECT_EQ(events[0].begin_ns, 2000);
}

TEST(KinetoReader, RefusesWhatIsNoJson) {
  std::istringstream text(R"({"traceEvents": [{"ph": "X")");
  EXPECT_THROW(ReadKineto(text, [](const KinetoEvent&) {}), std::runtime_error);
}

TEST(Recording, HoldsCallsWithTheirWork) {
  const Recording recording = LoadRecording(STEPAGENT_TINY_RECORDING, 1000);
  EXPECT_EQ(recording.threads, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(recording.streams, (std::vector<StreamKey>{{0, 7}, {0, 20}}));
  EXPECT_EQ(recording.left_out.at("cudaStreamIsCapturing"), 2u);
  std::map<CallId, int> calls;
  for (const Call& call : recording.calls) ++calls[call.id];
  EXPECT_EQ(calls[CallId::kLaunchKernel], 10);
  EXPECT_EQ(calls[CallId::kMemcpyAsync], 6);
  const auto pinned = std::find_if(recording.calls.begin(), recording.calls.end(),
                                   [](const Call& call) { return IsCopy(call.id); });
  ASSERT_NE(pinned, recording.calls.end());
  const DeviceWork& work = recording.work[pinned->work];
  EXPECT_EQ(work.source, Memory::kPinned);
  EXPECT_EQ(work.bytes, 65536u);
  EXPECT_EQ(work.duration_ns, 30000u);
}

TEST(Recording, RefusesTooManyCalls) {
  EXPECT_THROW(LoadRecording(STEPAGENT_TINY_RECORDING, 3), std::runtime_error);
}

TEST(Recording, RefusesMissingFile) {
  EXPECT_THROW(LoadRecording("no such file", 3), std::runtime_error);
}

TEST(Timeline, EndsComeBeforeCallsAndBeginsToo) {
  const Recording recording = LoadRecording(STEPAGENT_TINY_RECORDING, 1000);
  const std::vector<Action> timeline = MakeTimeline(recording, true);
  int depth = 0;
  for (size_t i = 0; i < timeline.size(); i++) {
    if (i > 0) {
      EXPECT_LE(timeline[i - 1].time_ns, timeline[i].time_ns);
    }
    if (timeline[i].thread != 0) continue;
    if (timeline[i].type == ActionType::kPush) ++depth;
    if (timeline[i].type == ActionType::kPop) --depth;
    const bool is_call = timeline[i].type == ActionType::kCall;
    const uint32_t work = is_call ? recording.calls[timeline[i].index].work : kNone;
    if (work == kNone || recording.work[work].name == kNone) continue;
    const std::string& name = recording.names[recording.work[work].name];
    if (name == "outside_kernel") {
      EXPECT_EQ(depth, 0);
    }
    if (name == "late_kernel") {
      EXPECT_EQ(depth, 1);
    }
  }
}

TEST(Timeline, CrossingAnnotationsAreNotPushed) {
  const Recording recording = LoadRecording(STEPAGENT_TINY_RECORDING, 1000);
  int started = 0;
  for (const Action& action : MakeTimeline(recording, true)) {
    if (action.type != ActionType::kRangeStart) continue;
    EXPECT_EQ(recording.names[recording.annotations[action.index].name], "crossing");
    ++started;
  }
  EXPECT_EQ(started, 2);
}

TEST(Timeline, WithoutRangesThereAreOnlyCalls) {
  const Recording recording = LoadRecording(STEPAGENT_TINY_RECORDING, 1000);
  EXPECT_EQ(MakeTimeline(recording, false).size(), recording.calls.size());
}

}  // namespace
}  // namespace stepagent::replay
