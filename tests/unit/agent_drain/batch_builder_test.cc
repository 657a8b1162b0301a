// Whatever goes into the builder, libprotobuf's generated classes read back exactly.
#include "batch_builder_fixture.h"

namespace stepagent::drain {
namespace {

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

TEST_F(BatchBuilderTest, GaugesAreToldWhereThereIsAnything) {
  EXPECT_FALSE(Close().has_gauges());
  gauges_ = {.ring_bytes = 393'216, .ring_bytes_waiting = 48, .cupti_buffers = 2};
  const v1::Batch batch = Close();
  EXPECT_EQ(batch.gauges().ring_bytes(), 393'216U);
  EXPECT_EQ(batch.gauges().ring_bytes_waiting(), 48U);
  EXPECT_EQ(batch.gauges().cupti_buffers(), 2U);
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

}  // namespace
}  // namespace stepagent::drain
