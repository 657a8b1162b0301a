// Whatever goes into the builder, libprotobuf's generated classes read back exactly.
#include "agent/drain/batch_builder.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/drain/cycle_report.h"
#include "batch.pb.h"

namespace stepagent::drain {
namespace {

using core::HostClock;
using core::NameTable;

class BatchBuilderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(NameTable::Init());
    HostClock::Start();
    (void)HostClock::Calibrate(true);
  }
  v1::Batch Close(uint64_t sequence = 0, uint32_t cycle = 0) {
    const std::string bytes = builder_.Finish(sequence, 12345, cycle, totals_);
    v1::Batch batch;
    EXPECT_TRUE(batch.ParseFromString(bytes));
    // The same bytes from the other encoder: field order, widths and defaults agree.
    EXPECT_EQ(batch.SerializeAsString(), bytes);
    EXPECT_TRUE(builder_.empty());
    last_bytes_ = bytes.size();
    return batch;
  }

  BatchBuilder builder_{{.run = "20260801T000000_0badcafe",
                         .session = "0123456789abcdef",
                         .host = "node\xff"
                                 "1",
                         .rank = 3}};
  KindTotals totals_[kActivityKinds];
  size_t last_bytes_ = 0;
};

// A column of the wire as plain values: absent means zeros.
template <typename Repeated>
auto At(const Repeated& column, uint32_t row) -> std::decay_t<decltype(column[0])> {
  return column.size() == 0 ? 0 : column[static_cast<int>(row)];
}
template <typename Repeated>
void ExpectLength(const Repeated& column, uint32_t count) {
  EXPECT_TRUE(column.size() == 0 || static_cast<uint32_t>(column.size()) == count);
}
class Sum {
 public:
  template <typename Repeated>
  uint64_t Next(const Repeated& column, uint32_t row) {
    return value_ += static_cast<uint64_t>(At(column, row));
  }

 private:
  uint64_t value_ = 0;
};

std::map<uint32_t, std::string> StringsOf(const v1::Batch& batch) {
  std::map<uint32_t, std::string> strings;
  EXPECT_EQ(batch.strings().id_size(), batch.strings().text_size());
  for (int i = 0; i < batch.strings().id_size(); ++i) {
    strings[batch.strings().id(i)] = batch.strings().text(i);
  }
  return strings;
}

TEST_F(BatchBuilderTest, IdentityIsInEachBatchAndValidText) {
  const v1::Batch batch = Close(7, 2);
  EXPECT_EQ(batch.identity().run(), "20260801T000000_0badcafe");
  EXPECT_EQ(batch.identity().session(), "0123456789abcdef");
  EXPECT_EQ(batch.identity().host(),
            "node\xEF\xBF\xBD"
            "1");
  EXPECT_EQ(batch.identity().rank(), 3);
  EXPECT_EQ(batch.identity().cycle(), 2U);
  EXPECT_EQ(batch.sequence(), 7U);
  EXPECT_EQ(batch.host_ns(), 12345U);
}

TEST_F(BatchBuilderTest, CallsComeBackExactly) {
  std::mt19937_64 random(1);
  std::vector<core::Record> given;
  std::vector<uint32_t> threads;
  const uint64_t now = HostClock::Ticks();
  for (int i = 0; i < 3000; ++i) {
    core::Record r{};
    r.kind = core::RecordKind::kCall;
    r.call_class = static_cast<core::CallClass>(random() % 7);
    r.begin_ticks = now + random() % 1000000000;
    r.end_ticks = r.begin_ticks + random() % 100000;
    r.name = NameTable::Intern("cuCall" + std::to_string(random() % 20));
    r.domain = 1 + random() % 2;
    r.cbid = static_cast<uint16_t>(random());
    r.correlation = static_cast<uint32_t>(random());
    r.return_value = static_cast<int32_t>(random());
    r.stack = random() % 3 == 0 ? static_cast<uint32_t>(random()) : 0;
    r.category = random() % 4;
    const uint32_t thread = static_cast<uint32_t>(random() % 5);
    builder_.AddThread(thread, 1000 + thread, "worker");
    builder_.AddRecord(thread, r);
    given.push_back(r);
    threads.push_back(thread);
  }
  uint64_t content = 0;
  for (const uint64_t records : builder_.content().records) content += records;
  EXPECT_EQ(content, given.size());
  const v1::Batch batch = Close();
  const v1::Calls& c = batch.calls();
  ASSERT_EQ(c.count(), given.size());
  const auto strings = StringsOf(batch);
  Sum begin, correlation;
  for (uint32_t i = 0; i < c.count(); ++i) {
    const core::Record& r = given[i];
    EXPECT_EQ(At(c.thread(), i), threads[i]);
    EXPECT_EQ(strings.at(At(c.name(), i)), NameTable::Text(r.name));
    EXPECT_EQ(At(c.cls(), i), static_cast<uint32_t>(r.call_class));
    EXPECT_EQ(At(c.domain(), i), r.domain);
    EXPECT_EQ(At(c.cbid(), i), r.cbid);
    EXPECT_EQ(static_cast<int64_t>(begin.Next(c.begin_delta(), i)), HostClock::ToNs(r.begin_ticks));
    EXPECT_EQ(static_cast<int64_t>(At(c.duration_ns(), i)),
              HostClock::ToNs(r.end_ticks) - HostClock::ToNs(r.begin_ticks));
    EXPECT_EQ(correlation.Next(c.correlation_delta(), i), r.correlation);
    EXPECT_EQ(At(c.return_value(), i), r.return_value);
    EXPECT_EQ(At(c.flags(), i), r.category);
    EXPECT_EQ(At(c.stack(), i), r.stack);
  }
  std::set<uint32_t> indices(batch.threads().index().begin(), batch.threads().index().end());
  EXPECT_EQ(indices, (std::set<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.threads().tid_size(), 5);
  EXPECT_EQ(batch.threads().name_size(), 5);
}

TEST_F(BatchBuilderTest, RangesComeBackExactly) {
  std::mt19937_64 random(2);
  std::vector<core::Record> given;
  for (int i = 0; i < 2000; ++i) {
    core::Record r{};
    r.kind = static_cast<core::RecordKind>(2 + random() % 5);
    r.begin_ticks = HostClock::Ticks();
    r.range_id = random() % 3 == 0 ? random() : random() % 8;
    r.name = NameTable::Intern("range" + std::to_string(random() % 300));
    r.domain = random() % 2 == 0 ? 0 : NameTable::Intern("domain");
    r.category = random() % 3;
    r.color = random() % 2 == 0 ? 0 : static_cast<uint32_t>(random());
    builder_.AddThread(0, 77, "main");
    builder_.AddRecord(0, r);
    given.push_back(r);
  }
  const v1::Batch batch = Close();
  const v1::Ranges& ranges = batch.ranges();
  ASSERT_EQ(ranges.count(), given.size());
  EXPECT_EQ(ranges.thread_size(), 0);  // one thread, index 0: an absent column
  const auto strings = StringsOf(batch);
  Sum at;
  for (uint32_t i = 0; i < ranges.count(); ++i) {
    const core::Record& r = given[i];
    EXPECT_EQ(At(ranges.op(), i), static_cast<uint32_t>(r.kind) - 1);
    EXPECT_EQ(strings.at(At(ranges.name(), i)), NameTable::Text(r.name));
    EXPECT_EQ(At(ranges.domain(), i), r.domain);
    EXPECT_EQ(At(ranges.category(), i), r.category);
    EXPECT_EQ(static_cast<int64_t>(at.Next(ranges.host_delta(), i)),
              HostClock::ToNs(r.begin_ticks));
    EXPECT_EQ(At(ranges.range_id(), i), r.range_id);
    EXPECT_EQ(At(ranges.color(), i), r.color);
  }
}

core::KernelActivity RandomKernel(std::mt19937_64* random) {
  core::KernelActivity k{};
  auto& r = *random;
  k.start_ns = 1'790'000'000'000'000'000 + r() % 1000000000;
  k.end_ns = k.start_ns + r() % 100000;
  const uint64_t odd = r() % 50;
  if (odd == 0) k.start_ns = k.end_ns = 0;
  if (odd == 1) k.end_ns = 0;
  if (odd == 2) k.end_ns = k.start_ns - 1 - r() % 1000;
  k.lane = {.device = static_cast<int32_t>(r() % 3),
            .context = 1,
            .stream = r() % 4,
            .channel = static_cast<uint32_t>(r() % 2),
            .channel_type = 1};
  k.name = NameTable::Intern("_Z6kernel" + std::to_string(r() % 40));
  k.correlation = static_cast<uint32_t>(r());
  for (uint32_t& v : k.grid) v = static_cast<uint32_t>(1 + r() % 4);
  for (uint32_t& v : k.block) v = static_cast<uint32_t>(32 + r() % 4);
  for (uint32_t& v : k.cluster) v = static_cast<uint32_t>(r() % 2);
  k.registers_per_thread = static_cast<uint32_t>(r() % 3);
  k.static_shared_bytes = static_cast<uint32_t>(r() % 2 * 1024);
  k.dynamic_shared_bytes = static_cast<uint32_t>(r() % 2 * 65536);
  k.local_bytes_per_thread = static_cast<uint32_t>(r() % 2);
  k.graph_id = static_cast<uint32_t>(r() % 2 * 7);
  k.graph_node_id = k.graph_id == 0 ? 0 : r();
  k.flags = r() % 9 == 0 ? core::kDeviceLaunched : 0;
  return k;
}

TEST_F(BatchBuilderTest, KernelsComeBackExactlyAndImpossibleStampsAreMarked) {
  std::mt19937_64 random(3);
  std::vector<core::KernelActivity> given;
  for (int i = 0; i < 20000; ++i) {
    given.push_back(RandomKernel(&random));
    builder_.OnKernel(given.back());
  }
  const v1::Batch batch = Close();
  const v1::Kernels& k = batch.kernels();
  ASSERT_EQ(k.count(), given.size());
  const auto strings = StringsOf(batch);
  const v1::Shapes& shapes = k.shapes();
  const v1::Lanes& lanes = k.lanes();
  EXPECT_LE(lanes.count(), 24U);
  Sum start, correlation;
  for (uint32_t i = 0; i < k.count(); ++i) {
    const core::KernelActivity& g = given[i];
    const uint32_t s = At(k.shape(), i), l = At(k.lane(), i);
    ASSERT_LT(s, shapes.count());
    ASSERT_LT(l, lanes.count());
    EXPECT_EQ(strings.at(At(shapes.name(), s)), NameTable::Text(g.name));
    EXPECT_EQ(At(shapes.grid_x(), s), g.grid[0]);
    EXPECT_EQ(At(shapes.grid_y(), s), g.grid[1]);
    EXPECT_EQ(At(shapes.grid_z(), s), g.grid[2]);
    EXPECT_EQ(At(shapes.block_x(), s), g.block[0]);
    EXPECT_EQ(At(shapes.block_y(), s), g.block[1]);
    EXPECT_EQ(At(shapes.block_z(), s), g.block[2]);
    EXPECT_EQ(At(shapes.cluster_x(), s), g.cluster[0]);
    EXPECT_EQ(At(shapes.cluster_y(), s), g.cluster[1]);
    EXPECT_EQ(At(shapes.cluster_z(), s), g.cluster[2]);
    EXPECT_EQ(At(shapes.registers_per_thread(), s), g.registers_per_thread);
    EXPECT_EQ(At(shapes.static_shared_bytes(), s), g.static_shared_bytes);
    EXPECT_EQ(At(shapes.dynamic_shared_bytes(), s), g.dynamic_shared_bytes);
    EXPECT_EQ(At(shapes.local_bytes_per_thread(), s), g.local_bytes_per_thread);
    EXPECT_EQ(At(lanes.device(), l), g.lane.device);
    EXPECT_EQ(At(lanes.context(), l), g.lane.context);
    EXPECT_EQ(At(lanes.stream(), l), g.lane.stream);
    EXPECT_EQ(At(lanes.channel(), l), g.lane.channel);
    EXPECT_EQ(At(lanes.channel_type(), l), g.lane.channel_type);
    uint32_t flags = g.flags;
    uint64_t duration = g.end_ns - g.start_ns;
    if (g.start_ns == 0) {
      flags |= v1::DEVICE_NO_TIMING;
      duration = 0;
    } else if (g.end_ns == 0) {
      flags |= v1::DEVICE_UNFINISHED;
      duration = 0;
    } else if (g.end_ns < g.start_ns) {
      flags |= v1::DEVICE_REVERSED;
      duration = g.start_ns - g.end_ns;
    }
    EXPECT_EQ(start.Next(k.device_start_delta(), i), g.start_ns);
    EXPECT_EQ(At(k.duration_ns(), i), duration);
    EXPECT_EQ(correlation.Next(k.correlation_delta(), i), g.correlation);
    EXPECT_EQ(At(k.graph_id(), i), g.graph_id);
    EXPECT_EQ(At(k.graph_node_id(), i), g.graph_node_id);
    EXPECT_EQ(At(k.flags(), i), flags);
  }
}

TEST_F(BatchBuilderTest, CopiesAndSetsComeBackExactly) {
  std::mt19937_64 random(4);
  std::vector<core::MemcpyActivity> copies;
  std::vector<core::MemsetActivity> sets;
  for (int i = 0; i < 500; ++i) {
    core::MemcpyActivity c{};
    c.start_ns = 1000 + random() % 1000;
    c.end_ns = c.start_ns + random() % 1000;
    c.bytes = random();
    c.lane.stream = random() % 3;
    c.correlation = static_cast<uint32_t>(random());
    c.graph_node_id = random() % 2;
    c.copy_count = random() % 3;
    c.copy_kind = static_cast<uint8_t>(random() % 11);
    c.source_kind = static_cast<uint8_t>(random() % 5);
    c.target_kind = static_cast<uint8_t>(random() % 5);
    c.is_async = random() % 2 == 0;
    c.source_device = static_cast<int32_t>(random() % 3) - 1;
    c.target_device = static_cast<int32_t>(random() % 3) - 1;
    builder_.OnMemcpy(c);
    copies.push_back(c);
    core::MemsetActivity s{};
    s.start_ns = c.start_ns;
    s.end_ns = c.end_ns;
    s.bytes = random() % 4096;
    s.value = static_cast<uint32_t>(random());
    s.memory_kind = static_cast<uint8_t>(random() % 5);
    s.correlation = c.correlation + 1;
    builder_.OnMemset(s);
    sets.push_back(s);
  }
  const v1::Batch batch = Close();
  ASSERT_EQ(batch.memcpys().count(), copies.size());
  ASSERT_EQ(batch.memsets().count(), sets.size());
  Sum start, correlation, set_start;
  for (uint32_t i = 0; i < copies.size(); ++i) {
    const v1::Memcpys& c = batch.memcpys();
    EXPECT_EQ(start.Next(c.device_start_delta(), i), copies[i].start_ns);
    EXPECT_EQ(At(c.duration_ns(), i), copies[i].end_ns - copies[i].start_ns);
    EXPECT_EQ(correlation.Next(c.correlation_delta(), i), copies[i].correlation);
    EXPECT_EQ(At(c.lanes().stream(), At(c.lane(), i)), copies[i].lane.stream);
    EXPECT_EQ(At(c.bytes(), i), copies[i].bytes);
    EXPECT_EQ(At(c.copy_kind(), i), copies[i].copy_kind);
    EXPECT_EQ(At(c.source_kind(), i), copies[i].source_kind);
    EXPECT_EQ(At(c.target_kind(), i), copies[i].target_kind);
    EXPECT_EQ(At(c.source_device(), i), copies[i].source_device + 1);
    EXPECT_EQ(At(c.target_device(), i), copies[i].target_device + 1);
    EXPECT_EQ(At(c.is_async(), i), copies[i].is_async ? 1U : 0U);
    EXPECT_EQ(At(c.copy_count(), i), copies[i].copy_count);
    EXPECT_EQ(At(c.graph_node_id(), i), copies[i].graph_node_id);
    const v1::Memsets& s = batch.memsets();
    EXPECT_EQ(set_start.Next(s.device_start_delta(), i), sets[i].start_ns);
    EXPECT_EQ(At(s.bytes(), i), sets[i].bytes);
    EXPECT_EQ(At(s.value(), i), sets[i].value);
    EXPECT_EQ(At(s.memory_kind(), i), sets[i].memory_kind);
  }
}

TEST_F(BatchBuilderTest, TheRestComesBackExactly) {
  builder_.OnSync({.start_ns = 10,
                   .end_ns = 30,
                   .type = 3,
                   .context = 1,
                   .event = 0,
                   .correlation = 9,
                   .stream = 7});
  builder_.OnSync({.start_ns = 40,
                   .end_ns = 50,
                   .type = 4,
                   .context = 1,
                   .event = 2,
                   .correlation = 10,
                   .stream = UINT64_MAX});
  builder_.OnGraphLaunch({.start_ns = 5,
                          .end_ns = 8,
                          .lane = {.device = 2},
                          .correlation = 4,
                          .graph_id = 6,
                          .flags = 0});
  builder_.OnOverhead({.start_ns = 100, .end_ns = 130, .kind = 65536, .tid = 55});
  builder_.OnMemory({.at_ns = 3,
                     .address = 0xffff0000ffff0000,
                     .bytes = 64,
                     .operation = 1,
                     .memory_kind = 3,
                     .correlation = 1,
                     .device = -1});
  builder_.AddClockSample({.host_ns = -5,
                           .real_ns = 1'790'000'000'000'000'000,
                           .bracket_ns = 31,
                           .suspended_ms = 4000});
  builder_.AddNote(1, "overlapping_steps", "two threads");
  builder_.AddCycleEvent(1, v1::CycleEvent::ARMED, 77, "");
  core::DeviceActivity device{};
  device.ordinal = 0;
  device.name = "Device";
  device.uuid[15] = 9;
  device.memory_bytes = 1ULL << 40;
  device.shared_per_block_optin = 232448;
  builder_.OnDevice(device);
  EXPECT_TRUE(builder_.DevicesInUse().empty());  // a device that is there need not be in use
  builder_.OnContext({.id = 1, .device = 0, .null_stream = 7});
  builder_.OnStream({.context = 1, .id = 13, .priority = -5, .flag = 1});
  builder_.OnInvalid(v1::ACTIVITY_KERNEL);
  EXPECT_EQ(builder_.invalid(v1::ACTIVITY_KERNEL), 1U);
  totals_[v1::ACTIVITY_LAUNCH] = {.produced = 10, .sent = 7, .dropped_uplink = 3};
  const v1::Batch batch = Close();
  EXPECT_EQ(batch.syncs().stream(0), 8U);
  EXPECT_EQ(batch.syncs().stream(1), 0U);
  EXPECT_EQ(batch.syncs().device_start_delta(1), 30);
  EXPECT_EQ(batch.graph_launches().lanes().device(0), 2);
  EXPECT_EQ(batch.graph_launches().graph_id(0), 6U);
  EXPECT_EQ(batch.overheads().kind(0), 65536U);
  EXPECT_EQ(batch.overheads().thread_tid(0), 55U);
  EXPECT_EQ(batch.memories().address(0), 0xffff0000ffff0000U);
  EXPECT_EQ(batch.memories().device(0), -1);
  EXPECT_EQ(batch.clock_samples().host_ns(0), -5);
  EXPECT_EQ(batch.clock_samples().real_ns(0), 1'790'000'000'000'000'000);
  EXPECT_EQ(batch.clock_samples().suspended_ms(0), 4000U);
  EXPECT_EQ(batch.notes(0).code(), "overlapping_steps");
  EXPECT_EQ(batch.cycle_events(0).kind(), v1::CycleEvent::ARMED);
  EXPECT_EQ(batch.cycle_events(0).host_ns(), 77);
  EXPECT_EQ(batch.devices(0).name(), "Device");
  EXPECT_EQ(batch.devices(0).uuid().size(), 16U);
  EXPECT_EQ(batch.devices(0).memory_bytes(), 1ULL << 40);
  EXPECT_EQ(batch.devices(0).shared_per_block_optin(), 232448U);
  EXPECT_EQ(batch.contexts(0).null_stream(), 7U);
  EXPECT_EQ(batch.streams(0).priority(), -5);
  EXPECT_EQ(batch.losses().kinds_size(), 1);
  EXPECT_EQ(batch.losses().kinds(0).activity(), v1::ACTIVITY_LAUNCH);
  EXPECT_EQ(batch.losses().kinds(0).dropped_uplink(), 3U);

  // Any batch may be lost: the next one describes the device again.
  builder_.OnOverhead({.start_ns = 100, .end_ns = 130, .kind = 1, .tid = 1});
  const v1::Batch next = Close(1);
  EXPECT_EQ(next.devices_size(), 1);
  EXPECT_EQ(next.contexts_size(), 1);
  EXPECT_EQ(next.streams_size(), 1);
}

TEST_F(BatchBuilderTest, TellsEachDeviceWithAContextOnceAndAcrossBatches) {
  builder_.OnContext({.id = 1, .device = 3, .null_stream = 7});
  builder_.OnContext({.id = 2, .device = 0, .null_stream = 7});
  builder_.OnContext({.id = 5, .device = 3, .null_stream = 7});
  (void)Close();
  EXPECT_EQ(builder_.DevicesInUse(), (std::vector<uint32_t>{0, 3}));
}

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
