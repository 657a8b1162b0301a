// Batches as wholes: each stands alone, steps and events in them, their size.
#include "batch_builder_fixture.h"

namespace stepagent::drain {
namespace {

TEST_F(BatchBuilderTest, EveryBatchDeclaresWhatItUsesAndDeltasBeginAnew) {
  std::mt19937_64 random(5);
  core::KernelActivity kernel = RandomKernel(&random);
  kernel.start_ns = 1'790'000'000'000'000'000;
  kernel.end_ns = kernel.start_ns + 5;
  for (uint64_t sequence = 0; sequence < 3; ++sequence) {
    builder_.OnKernel(kernel);
    const v1::Batch batch = Close(sequence);
    EXPECT_EQ(StringsOf(batch).size(), 1U);
    EXPECT_EQ(batch.kernels().shapes().count(), 1U);
    EXPECT_EQ(batch.kernels().lanes().count(), 1U);
    EXPECT_EQ(static_cast<uint64_t>(batch.kernels().device_start_delta(0)), kernel.start_ns);
  }
}

core::GateEvent StepEvent(core::GateEvent::Kind kind, uint64_t index, uint64_t ticks,
                          core::Phase phase = core::Phase::kActive) {
  return {.kind = kind,
          .phase = phase,
          .ended = core::Ended::kNone,
          .flags = 0,
          .cycle = 1,
          .tid = 42,
          .index = index,
          .process_index = index + 100,
          .ticks = ticks};
}

TEST_F(BatchBuilderTest, AnOpenStepIsRepeatedWholeWithItsEnd) {
  using Kind = core::GateEvent::Kind;
  const uint64_t t = HostClock::Ticks();
  builder_.AddGateEvent(StepEvent(Kind::kStepBegin, 4, t));
  v1::Batch batch = Close();
  ASSERT_EQ(batch.steps().count(), 1U);
  EXPECT_EQ(batch.steps().index(0), 4U);
  EXPECT_EQ(At(batch.steps().end_ns(), 0), 0);
  ASSERT_EQ(batch.threads().index_size(), 1);
  EXPECT_EQ(batch.threads().index(0), batch.steps().thread(0));
  EXPECT_EQ(batch.threads().tid(0), 42U);

  auto end = StepEvent(Kind::kStepEnd, 4, t + 5000000);
  end.flags = v1::STEP_CUT;
  builder_.AddThread(9, 42, "main");
  builder_.AddGateEvent(end);
  builder_.AddGateEvent(StepEvent(Kind::kStepBegin, 5, t + 6000000));
  builder_.AddGateEvent(StepEvent(Kind::kStepEnd, 5, t + 7000000));
  batch = Close(1);
  ASSERT_EQ(batch.steps().count(), 2U);
  EXPECT_EQ(batch.steps().index(0), 4U);
  EXPECT_EQ(batch.steps().process_index(0), 104U);
  EXPECT_EQ(batch.steps().begin_ns(0), HostClock::ToNs(t));
  EXPECT_EQ(batch.steps().end_ns(0), HostClock::ToNs(t + 5000000));
  EXPECT_EQ(batch.steps().flags(0), static_cast<uint32_t>(v1::STEP_CUT));
  EXPECT_EQ(batch.steps().phase(0), static_cast<uint32_t>(v1::PHASE_ACTIVE));
  EXPECT_EQ(batch.steps().cycle(1), 1U);
  EXPECT_EQ(batch.steps().end_ns(1), HostClock::ToNs(t + 7000000));
  EXPECT_EQ(batch.steps().thread(0), 9U);  // the thread's ring is known by now
}

TEST_F(BatchBuilderTest, StepsThatWaitAreNotRecorded) {
  using Kind = core::GateEvent::Kind;
  builder_.AddGateEvent(StepEvent(Kind::kStepBegin, 0, 1, core::Phase::kWaiting));
  builder_.AddGateEvent(StepEvent(Kind::kStepEnd, 0, 2, core::Phase::kWaiting));
  builder_.AddGateEvent(StepEvent(Kind::kStepEnd, 1, 3));  // its begin was dropped
  EXPECT_TRUE(builder_.empty());
}

TEST_F(BatchBuilderTest, GateEventsBecomeCycleEvents) {
  using Kind = core::GateEvent::Kind;
  for (const Kind kind :
       {Kind::kWarmupBegin, Kind::kActiveBegin, Kind::kActiveEnd, Kind::kCancelled}) {
    auto event = StepEvent(kind, 0, HostClock::Ticks());
    if (kind == Kind::kActiveEnd) event.ended = core::Ended::kLimit;
    builder_.AddGateEvent(event);
  }
  const v1::Batch batch = Close();
  ASSERT_EQ(batch.cycle_events_size(), 4);
  EXPECT_EQ(batch.cycle_events(0).kind(), v1::CycleEvent::WARMUP_BEGIN);
  EXPECT_EQ(batch.cycle_events(1).kind(), v1::CycleEvent::ACTIVE_BEGIN);
  EXPECT_EQ(batch.cycle_events(2).kind(), v1::CycleEvent::ACTIVE_END);
  EXPECT_EQ(batch.cycle_events(2).ended(), "limit");
  EXPECT_EQ(batch.cycle_events(3).kind(), v1::CycleEvent::CANCELLED);
}

TEST_F(BatchBuilderTest, ACycleReportGoesInWhole) {
  CycleReportData report;
  report.cycle = 2;
  report.gpu.status = cupti::GpuState::Status::kPartial;
  report.gpu.reason = "armed late";
  report.kinds = {{.activity = 1, .requested = true, .enabled = false, .error = "refused"}};
  report.cost.callbacks = 9;
  report.steps_ended = 12000;
  report.all_steps = {{.index = 0, .duration_ns = 5, .collecting = 0},
                      {.index = 1, .duration_ns = 6, .collecting = 2}};
  report.top_ranges = {{.name = "step", .domain = "", .count = 10}};
  report.launches_awaited_in_vain = 3;
  builder_.AddCycleReport(EncodeCycleReport(report));
  const v1::Batch batch = Close();
  ASSERT_EQ(batch.cycle_reports_size(), 1);
  const v1::CycleReport& read = batch.cycle_reports(0);
  EXPECT_EQ(read.cycle(), 2U);
  EXPECT_EQ(read.gpu().status(), "partial");
  EXPECT_EQ(read.gpu().reason(), "armed late");
  EXPECT_EQ(read.kinds(0).error(), "refused");
  EXPECT_EQ(read.cost().callbacks(), 9U);
  EXPECT_EQ(read.all_steps().count(), 12000U);
  ASSERT_EQ(read.all_steps().index_size(), 2);
  EXPECT_EQ(read.all_steps().collecting(0), 0U);
  EXPECT_EQ(read.all_steps().collecting(1), 2U);
  EXPECT_EQ(read.top_ranges(0).count(), 10U);
  EXPECT_EQ(read.launches_awaited_in_vain(), 3U);
}

// A thousand cycles of twenty steps: the reports grow with the steps, not with their square, and each
// row that is kept was in one of them.
TEST_F(BatchBuilderTest, AThousandCycleReportsStayLinear) {
  constexpr uint64_t kPlaces = 10'000, kStepsPerCycle = 20;
  std::mt19937_64 random(8);
  std::vector<StepDurationRow> kept;
  std::set<uint64_t> sent;
  NewStepRows rows;
  size_t first_bytes = 0, last_bytes = 0, total_bytes = 0, repeated = 0;
  uint64_t ended = 0;
  for (int cycle = 0; cycle < 1000; ++cycle) {
    for (uint64_t i = 0; i < kStepsPerCycle; ++i, ++ended) {
      const StepDurationRow row{ended, 9'000'000 + ended, 2};
      const uint64_t place = ended < kPlaces ? ended : random() % (ended + 1);
      if (place == kept.size()) {
        kept.push_back(row);
      } else if (place < kPlaces) {
        kept[place] = row;
      }
    }
    CycleReportData report;
    rows.Take(kept, ended, &report);
    const size_t bytes = EncodeCycleReport(report).size();
    total_bytes += bytes;
    if (cycle < 100) first_bytes += bytes;
    if (cycle >= 900) last_bytes += bytes;
    for (const StepDurationRow& row : report.all_steps) repeated += sent.insert(row.index).second ? 0 : 1;
  }
  EXPECT_EQ(repeated, 0U);
  EXPECT_LE(last_bytes, first_bytes * 3 / 2);
  EXPECT_LE(total_bytes, ended * 20);
  for (const StepDurationRow& row : kept) EXPECT_TRUE(sent.contains(row.index));
}

// The bars of the performance anchors: a kernel record at most 13 bytes, a launch record 14.
TEST_F(BatchBuilderTest, RecordsAreSmall) {
  std::mt19937_64 random(6);
  std::vector<core::KernelActivity> shapes;
  for (int i = 0; i < 300; ++i) {
    shapes.push_back(RandomKernel(&random));
    shapes.back().flags = 0;
    shapes.back().graph_id = 0;
    shapes.back().graph_node_id = 0;
  }
  uint64_t device_ns = 1'790'000'000'000'000'000;
  constexpr uint32_t kRecords = 15000;
  for (uint32_t i = 0; i < kRecords; ++i) {
    core::KernelActivity k = shapes[random() % shapes.size()];
    device_ns += 500 + random() % 4000;
    k.start_ns = device_ns;
    k.end_ns = device_ns + 1000 + random() % 20000;
    k.correlation = 1000 + i;
    k.lane = {
        .device = 0, .context = 1, .stream = 7 + random() % 3, .channel = 0, .channel_type = 0};
    builder_.OnKernel(k);
  }
  EXPECT_NEAR(static_cast<double>(builder_.approximate_bytes()), kRecords * 10.0, kRecords * 3.0);
  (void)Close();
  EXPECT_LE(static_cast<double>(last_bytes_) / kRecords, 13.0);

  uint64_t ticks = HostClock::Ticks();
  builder_.AddThread(3, 100, "main");
  const core::NameId name = NameTable::Intern("cudaLaunchKernel");
  for (uint32_t i = 0; i < kRecords; ++i) {
    core::Record r{};
    r.kind = core::RecordKind::kCall;
    r.call_class = core::CallClass::kLaunch;
    ticks += 9000 + random() % 9000;
    r.begin_ticks = ticks;
    r.end_ticks = ticks + 6000 + random() % 3000;
    r.name = name;
    r.domain = 2;
    r.cbid = 211;
    r.correlation = 1000 + i;
    builder_.AddRecord(3, r);
  }
  (void)Close(1);
  EXPECT_LE(static_cast<double>(last_bytes_) / kRecords, 14.0);
}

}  // namespace
}  // namespace stepagent::drain
