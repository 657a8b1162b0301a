#include "agent/drain/drainer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/core/clock.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/drain/cycle_report.h"
#include "agent/drain/tail_tracker.h"
#include "proto/frame.h"
#include "proto/limits.h"

namespace stepagent::drain {
namespace {

enum : uint32_t {  // batch.proto Activity
  kNone = 0,
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kLaunch = 4,
  kSync = 5,
  kNvtx = 6,
  kMemory = 7,
  kOverhead = 8
};
// How often a batch is asked for its size: eighty additions for 256 records are under a nanosecond
// each, and 256 records are a few KiB past the target at most (their names aside).
constexpr uint32_t kRecordsPerSizeCheck = 256;
constexpr uint64_t kPollNs = 1'000'000, kShortestPollNs = 100'000;
// Both runs of a ring's first memory and both of its larger one.
constexpr int kMaxRounds = 4;

uint64_t DecodeFromCupti(core::ActivitySink* sink) { return cupti::Backend().Decode(sink); }
cupti::BackendCounters CuptiCounters() { return cupti::Backend().counters(); }

}  // namespace

// The most seen in the last second or two.
class Peak {
 public:
  void Add(uint64_t seen, uint64_t now_ns) {
    if (now_ns - since_ns_ >= kSpanNs) {
      before_ = std::exchange(now_, 0);
      since_ns_ = now_ns;
    }
    now_ = std::max(now_, seen);
  }
  [[nodiscard]] uint64_t value() const { return std::max(before_, now_); }

 private:
  static constexpr uint64_t kSpanNs = 1'000'000'000;
  uint64_t before_ = 0, now_ = 0, since_ns_ = 0;
};

// What decoded device records pass through: totals, the cap, the tail, then the batch.
struct Drainer::Impl final : core::ActivitySink {
  Impl(const DrainConfig& drain_config, io::FrameSink* frame_sink)
      : config(drain_config),
        decode(config.device.decode != nullptr ? config.device.decode : DecodeFromCupti),
        counters(config.device.counters != nullptr ? config.device.counters : CuptiCounters),
        uplink(frame_sink),
        builder(drain_config.identity) {}

  const DrainConfig config;
  uint64_t (*const decode)(core::ActivitySink* sink);
  cupti::BackendCounters (*const counters)();
  io::FrameSink* const uplink;
  BatchBuilder builder;
  TailTracker tail;
  std::function<void(const core::GateEvent&)> observer;
  struct RingSpan {
    core::ThreadRing* ring;
    const core::Record* items;
    uint32_t count;
  };
  std::vector<RingSpan> spans;
  KindTotals totals[kActivityKinds];
  uint64_t device_produced[kActivityKinds] = {};
  uint64_t now_ns = 0;
  uint64_t previous_ns = 0;  // of the call before
  uint64_t poll_ns = kPollNs;
  uint64_t oldest_ns = 0;  // when the batch at hand got its first entry
  uint64_t records = 0;
  uint64_t window_records = 0;
  uint64_t sequence = 0;        // of the next batch
  Peak most_waiting;            // records in rings at one look
  Peak most_buffers;            // buffers with CUPTI at one look
  uint64_t reported_drops = 0;  // sum of uplink drops the last batch told of
  uint32_t until_check = kRecordsPerSizeCheck;
  uint32_t cycle = 0;
  bool stop_accepting = false;
  bool is_capped = false;
  bool saw_retired = false;
  bool has_decoded = false;

  // True when the record may go into the batch; counts it either way.
  bool Accept(uint32_t activity) {
    ++records;
    ++window_records;
    if (!IsFull()) [[likely]]
      return true;
    ++totals[activity].dropped_limit;
    return false;
  }
  void Entered(uint32_t count = 1) {
    if (until_check > count) [[likely]] {
      until_check -= count;
      return;
    }
    until_check = kRecordsPerSizeCheck;
    if (builder.approximate_bytes() >= proto::kBatchTargetBytes) Send();
  }
  template <typename Activity>
  void TakeDevice(uint32_t activity, const Activity& record) {
    tail.OnDevice(record.correlation, /*is_cut=*/record.start_ns != 0 && record.end_ns == 0);
    ++device_produced[activity];
    if (!Accept(activity)) return;
    Put(record);
    Entered();
  }
  void Put(const core::KernelActivity& r) { builder.BatchBuilder::OnKernel(r); }
  void Put(const core::MemcpyActivity& r) { builder.BatchBuilder::OnMemcpy(r); }
  void Put(const core::MemsetActivity& r) { builder.BatchBuilder::OnMemset(r); }
  void Put(const core::GraphActivity& r) { builder.BatchBuilder::OnGraphLaunch(r); }

  void OnKernel(const core::KernelActivity& r) override { TakeDevice(kKernel, r); }
  void OnMemcpy(const core::MemcpyActivity& r) override { TakeDevice(kMemcpy, r); }
  void OnMemset(const core::MemsetActivity& r) override { TakeDevice(kMemset, r); }
  void OnGraphLaunch(const core::GraphActivity& r) override { TakeDevice(kKernel, r); }
  void OnSync(const core::SyncActivity& r) override {
    if (IsFull()) return;  // detail beside the call, which is what counts
    builder.OnSync(r);
    Entered();
  }
  void OnOverhead(const core::OverheadActivity& r) override {
    ++device_produced[kOverhead];
    if (!Accept(kOverhead)) return;
    builder.OnOverhead(r);
    Entered();
  }
  void OnMemory(const core::MemoryActivity& r) override {
    ++device_produced[kMemory];
    if (!Accept(kMemory)) return;
    builder.OnMemory(r);
    Entered();
  }
  void OnDevice(const core::DeviceActivity& r) override { builder.OnDevice(r); }
  void OnContext(const core::ContextActivity& r) override { builder.OnContext(r); }
  void OnStream(const core::StreamActivity& r) override {
    builder.OnStream(r);
    Entered();
  }
  void OnInvalid(uint32_t activity) override {
    ++device_produced[activity < kActivityKinds ? activity : kNone];
    builder.OnInvalid(activity);
  }

  [[nodiscard]] bool IsFull() const {
    return stop_accepting ||
           (is_capped && config.max_records != 0 && window_records > config.max_records);
  }
  void TakeGateEvents();
  uint64_t TakeRings();
  void ChoosePoll(uint64_t fullest);  // records in the fullest ring
  void TakeSpan(core::ThreadRing* ring, const core::Record* items, uint32_t count);
  void TakeLosses();
  void ReadTotals();
  [[nodiscard]] Gauges ReadGauges();
  void Send();
};

void Drainer::Impl::TakeGateEvents() {
  core::Gate().TakeEvents([this](const core::GateEvent& event) {
    builder.AddGateEvent(event);
    switch (event.kind) {
      case core::GateEvent::Kind::kWarmupBegin:  // the cap is the window's, not the warmup's
        is_capped = false;
        break;
      case core::GateEvent::Kind::kActiveBegin:
        tail.OpenWindow(event.cycle, event.ticks);
        is_capped = true;
        window_records = 0;
        break;
      case core::GateEvent::Kind::kActiveEnd:
        tail.CloseWindow(event.cycle, event.ticks);
        break;
      default:
        break;
    }
    if (observer) observer(event);
  });
}

// Heads first, then events, then the records up to those heads: the gate promises that the event of
// every record seen is then seen too. Several rounds, because a run ends at the ring's edge, and
// where a ring grew; what comes meanwhile is for the next call.
uint64_t Drainer::Impl::TakeRings() {
  uint64_t taken = 0, fullest = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    spans.clear();
    uint64_t all_waiting = 0;
    core::RingRegistry::ForEach([&](core::ThreadRing* ring) {
      // The state before the head: an owner that has exited appends no more.
      saw_retired |= ring->state.load(std::memory_order_acquire) == 2;
      const auto span = ring->ring.Peek();
      const uint64_t waiting = ring->ring.waiting();
      fullest = std::max(fullest, waiting);
      all_waiting += waiting;
      if (span.count != 0) spans.push_back({ring, span.items, span.count});
    });
    most_waiting.Add(all_waiting, now_ns);
    TakeGateEvents();
    if (spans.empty()) break;
    for (const RingSpan& span : spans) {
      TakeSpan(span.ring, span.items, span.count);
      taken += span.count;
    }
  }
  ChoosePoll(fullest);
  return taken;
}

void Drainer::Impl::ChoosePoll(uint64_t fullest) {
  constexpr uint64_t kQuarter = core::kRingSlots / 4;
  const uint64_t elapsed = std::clamp(now_ns - previous_ns, kShortestPollNs, kPollNs);
  previous_ns = now_ns;
  poll_ns =
      std::clamp(elapsed * kQuarter / std::max(fullest, uint64_t{1}), kShortestPollNs, kPollNs);
}

void Drainer::Impl::TakeSpan(core::ThreadRing* ring, const core::Record* items, uint32_t count) {
  const std::string_view name(ring->name, strnlen(ring->name, sizeof ring->name));
  const core::Record* calls[kRecordsPerSizeCheck];
  const core::Record* ranges[kRecordsPerSizeCheck];
  for (uint32_t at = 0; at < count; at += kRecordsPerSizeCheck) {
    const uint32_t end = std::min(count, at + kRecordsPerSizeCheck);
    uint32_t call_count = 0, range_count = 0;
    for (uint32_t i = at; i < end; ++i) {
      const core::Record& record = items[i];
      const bool is_call = record.kind == core::RecordKind::kCall;
      if (is_call) tail.OnCall(record);
      if (!Accept(ActivityOfRecord(record))) continue;
      (is_call ? calls[call_count++] : ranges[range_count++]) = &record;
    }
    if (call_count + range_count != 0) {
      builder.AddThread(ring->index, ring->tid, name);
      builder.AddCalls(ring->index, calls, call_count);
      builder.AddRanges(ring->index, ranges, range_count);
    }
    // Block by block: a producer that is about to fill its ring need not wait for the whole run.
    ring->ring.Consume(end - at);
    Entered(call_count + range_count);
  }
}

void Drainer::Impl::TakeLosses() {
  const BatchContent losses = uplink->TakeLosses();
  for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
    totals[kind].sent -= losses.records[kind];
    totals[kind].dropped_uplink += losses.records[kind];
  }
}

void Drainer::Impl::ReadTotals() {
  const core::RingRegistry::Totals rings = core::RingRegistry::totals();
  const core::RingRegistry::NoRing none = core::RingRegistry::no_ring();
  struct HostKind {
    uint32_t kind;
    uint64_t produced, dropped, no_ring;
  };
  for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
    totals[kind].produced = device_produced[kind];
    totals[kind].invalid = builder.invalid(kind);
    totals[kind].dropped_no_ring = 0;
  }
  for (const HostKind& host :
       {HostKind{kLaunch, rings.produced_launch, rings.dropped_launch, none.launch},
        HostKind{kSync, rings.produced_sync, rings.dropped_sync, none.sync},
        HostKind{kNvtx, rings.produced_nvtx, rings.dropped_nvtx, none.nvtx},
        HostKind{kMemory, rings.produced_memory, rings.dropped_memory, none.memory}}) {
    totals[host.kind].produced += host.produced + host.no_ring;
    totals[host.kind].dropped_ring_full = host.dropped;
    totals[host.kind].dropped_no_ring = host.no_ring;
  }
  if (!has_decoded) return;
  const cupti::BackendCounters device = counters();
  totals[kNone].dropped_cupti = device.cupti_dropped;
  totals[kNone].produced += device.cupti_dropped;
  for (const uint32_t kind : {kKernel, kMemcpy, kMemset, kOverhead, kMemory}) {
    // Discarded for want of buffer memory: a cap of ours, as with rings.
    totals[kind].dropped_no_ring += device.pool_dropped[kind];
    totals[kind].produced += device.pool_dropped[kind];
    totals[kind].cupti_count_unknown = device.dropped_unknown || device.pool_uncounted != 0;
  }
}

Gauges Drainer::Impl::ReadGauges() {
  Gauges gauges;
  gauges.ring_bytes = core::RingRegistry::bytes();
  gauges.ring_bytes_waiting = most_waiting.value() * sizeof(core::Record);
  gauges.cupti_buffers = most_buffers.value();
  return gauges;
}

void Drainer::Impl::Send() {
  const BatchContent content = builder.content();
  for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
    totals[kind].sent += content.records[kind];
  }
  ReadTotals();
  reported_drops = 0;
  for (const KindTotals& t : totals) reported_drops += t.dropped_uplink;
  const uint64_t number = sequence++;
  std::string bytes = builder.Finish(number, core::HostClock::NowNs(), cycle, totals, ReadGauges());
  oldest_ns = 0;
  until_check = kRecordsPerSizeCheck;
  (void)uplink->Submit(static_cast<uint8_t>(proto::FrameType::kBatch), std::move(bytes), number,
                       content);
}

Drainer::Drainer(const DrainConfig& config, io::FrameSink* uplink)
    : impl_(std::make_unique<Impl>(config, uplink)) {}
Drainer::~Drainer() = default;

uint64_t Drainer::RunOnce(uint64_t now_ns, bool decode) {
  Impl& d = *impl_;
  d.now_ns = now_ns;
  d.TakeLosses();
  d.builder.WatchUnloads();
  uint64_t taken = d.TakeRings();
  if (d.saw_retired) {
    d.saw_retired = false;
    core::RingRegistry::Reclaim();
  }
  if (decode) {
    d.has_decoded = true;
    d.most_buffers.Add(d.counters().buffers_outstanding, now_ns);
    taken += d.decode(&d);
  }
  if (!d.builder.empty()) {
    if (d.oldest_ns == 0) d.oldest_ns = now_ns;
    if (now_ns - d.oldest_ns >= d.config.flush_interval_ns) d.Send();
  }
  return taken;
}

void Drainer::Flush(uint64_t now_ns) {
  Impl& d = *impl_;
  d.now_ns = now_ns;
  d.TakeLosses();
  uint64_t drops = 0;
  for (const KindTotals& t : d.totals) drops += t.dropped_uplink;
  // A batch that tells of losses is worth sending even when it holds nothing else.
  if (!d.builder.empty() || drops != d.reported_drops) d.Send();
}

uint64_t Drainer::poll_ns() const { return impl_->poll_ns; }
void Drainer::SetAwaited(uint32_t activities) { impl_->tail.SetAwaited(activities); }
uint64_t Drainer::Outstanding(uint32_t cycle) const { return impl_->tail.Outstanding(cycle); }
static_assert(Drainer::kMostWindows == TailTracker::kMostWindows);
uint64_t Drainer::ForgetWindow(uint32_t cycle, bool* was_given_up) {
  return impl_->tail.Forget(cycle, was_given_up);
}
void Drainer::SetGateObserver(std::function<void(const core::GateEvent&)> observer) {
  impl_->observer = std::move(observer);
}
uint64_t Drainer::window_records() const { return impl_->window_records; }
void Drainer::StopAccepting(bool stop) { impl_->stop_accepting = stop; }
void Drainer::SetCycle(uint32_t cycle) { impl_->cycle = cycle; }
BatchBuilder& Drainer::builder() { return impl_->builder; }
const KindTotals& Drainer::totals(uint32_t activity) const { return impl_->totals[activity]; }
uint64_t Drainer::records() const { return impl_->records; }
uint64_t Drainer::last_sequence() const { return impl_->sequence == 0 ? 0 : impl_->sequence - 1; }

std::string Drainer::EncodeLossReport() const {
  impl_->TakeLosses();
  impl_->ReadTotals();
  return drain::EncodeLossReport(impl_->totals);
}

}  // namespace stepagent::drain
