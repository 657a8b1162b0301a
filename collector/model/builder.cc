#include "collector/model/builder.h"

#include <algorithm>
#include <cstdio>

#include "batch.pb.h"
#include "session.pb.h"

#include "collector/model/balance.h"
#include "collector/model/batch_decoder.h"
#include "collector/model/cycle_assembly.h"
#include "collector/model/sequence_tracker.h"
#include "collector/model/session_info.h"

namespace stepagent::model {
namespace {

// Warmup records are let go once they are this old and this many: long warmups must not fill memory.
constexpr TimeNs kWarmupKeptNs = 5'000'000'000;
constexpr uint64_t kWarmupRecords = 1 << 16;
// 16 bytes each; a device lagging more than four million launches behind is counted as unjoined.
constexpr size_t kMaxGhosts = 1 << 22;
constexpr size_t kMaxNotes = 1000;
constexpr size_t kMaxSeenSteps = 10'000;

std::string UuidText(const std::string& bytes) {
  if (bytes.size() != 16) return {};
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex;
  }
  return text;
}

DeviceInfo FromWire(const v1::Device& d) {
  DeviceInfo info;
  info.ordinal = static_cast<int32_t>(d.ordinal());
  info.name = d.name();
  info.uuid = UuidText(d.uuid());
  info.memory_bytes = d.memory_bytes();
  info.memory_bandwidth_kbps = d.memory_bandwidth_kbps();
  info.multiprocessors = d.multiprocessors();
  info.compute_major = d.compute_major();
  info.compute_minor = d.compute_minor();
  info.clock_khz = d.clock_khz();
  info.warp_size = d.warp_size();
  info.max_threads_per_block = d.max_threads_per_block();
  info.max_threads_per_multiprocessor = d.max_threads_per_multiprocessor();
  info.registers_per_block = d.registers_per_block();
  info.registers_per_multiprocessor = d.registers_per_multiprocessor();
  info.shared_per_block = d.shared_per_block();
  info.shared_per_multiprocessor = d.shared_per_multiprocessor();
  info.shared_per_block_optin = d.shared_per_block_optin();
  return info;
}

}  // namespace

struct CycleBuilder::Impl {
  explicit Impl(const v1::Hello& hello)
      : session(SessionFromHello(hello)), clock(session.base_unix_ns), ranges(&records.ranges) {
    for (const std::string& name : session.activities) {
      if (const auto activity = ActivityFromName(name)) requested.insert(*activity);
    }
  }

  void Events(const v1::Batch& batch);
  void Steps(const v1::Steps& steps);
  void Losses(const v1::LossReport& losses);
  void Surroundings(const v1::Batch& batch);
  void LetWarmupGo();
  LossTotals CurrentLosses() const;
  std::optional<TimeNs> LaterFrom(uint32_t cycle) const;
  Cycle Build(const PendingCycle& p, std::string ended, bool has_agents_word);
  void Finish(Cycle* cycle, const PendingCycle& p, const CycleAssembly& assembly);
  void Discard(std::optional<TimeNs> later_from);
  void Release(std::optional<TimeNs> later_from);
  PendingCycle& At(uint32_t cycle) {
    PendingCycle& p = pending[cycle];
    p.index = cycle;
    return p;
  }

  SessionInfo session;
  ClockMap clock;
  Dictionary dictionary;
  Records records;
  RangeMatcher ranges;
  std::vector<Ghost> ghosts;
  std::map<uint32_t, PendingCycle> pending;
  std::optional<uint32_t> last_done;   // cycles up to here were taken
  std::map<int32_t, DeviceInfo> devices;
  std::map<uint32_t, uint32_t> device_of_context;
  std::set<Activity> requested;
  SequenceTracker sequences;
  Counts received{}, bad_sections{}, agent_dropped{}, agent_invalid{}, agent_sent{};
  std::array<bool, kActivityCount> unknown_drops{};
  LossTotals accounted;                // losses that earlier cycles carry
  std::optional<Gpu> last_gpu;
  std::vector<StepDuration> seen_steps;
  uint64_t seen_step_count = 0;
  TimeNs last_host_ns = 0;
  bool saw_device_work = false, has_clock_samples = false;
  std::optional<std::string> goodbye;
  uint64_t total_records = 0, cycles_begun = 0;
};

CycleBuilder::CycleBuilder(const v1::Hello& hello) : impl_(std::make_unique<Impl>(hello)) {}
CycleBuilder::~CycleBuilder() = default;

void CycleBuilder::Add(const v1::Batch& batch) {
  Impl& s = *impl_;
  if (!s.sequences.Accept(batch.sequence())) return;
  s.last_host_ns = std::max<TimeNs>(s.last_host_ns, static_cast<TimeNs>(std::min<uint64_t>(
                                                        batch.host_ns(), INT64_MAX)));
  s.Surroundings(batch);
  const uint64_t before = s.records.Count();
  DecodeRecords(batch, {.dictionary = &s.dictionary,
                        .records = &s.records,
                        .ranges = &s.ranges,
                        .received = &s.received,
                        .invalid = &s.bad_sections});
  s.total_records += s.records.Count() - before;
  s.saw_device_work = s.saw_device_work || batch.calls().count() > 0 ||
                      batch.kernels().count() > 0 || batch.memcpys().count() > 0 ||
                      batch.memsets().count() > 0 || batch.graph_launches().count() > 0;
  s.Steps(batch.steps());
  if (batch.has_losses()) s.Losses(batch.losses());
  s.Events(batch);
  s.LetWarmupGo();
}

void CycleBuilder::Add(const v1::Goodbye& goodbye) {
  Impl& s = *impl_;
  s.goodbye = goodbye.ended().empty() ? "exit" : goodbye.ended();
  if (goodbye.last_sequence() != 0) s.sequences.Expect(goodbye.last_sequence());
  if (goodbye.has_losses()) s.Losses(goodbye.losses());
}

void CycleBuilder::Impl::Surroundings(const v1::Batch& batch) {
  for (const auto& d : batch.devices()) {
    devices.insert_or_assign(static_cast<int32_t>(d.ordinal()), FromWire(d));
  }
  for (const auto& c : batch.contexts()) device_of_context[c.id()] = c.device();
  const auto& samples = batch.clock_samples();
  const int n = std::min(samples.host_ns_size(), samples.real_ns_size());
  for (int i = 0; i < n; ++i) {
    clock.Add(samples.host_ns(i), samples.real_ns(i),
              i < samples.bracket_ns_size() ? samples.bracket_ns(i) : 0);
    has_clock_samples = true;
  }
}

void CycleBuilder::Impl::Steps(const v1::Steps& w) {
  const int n = std::min<int>(w.begin_ns_size(), static_cast<int>(w.count()));
  const auto value = [](const auto& column, int i) { return i < column.size() ? column[i] : 0; };
  for (int i = 0; i < n; ++i) {
    const auto cycle = static_cast<uint32_t>(value(w.cycle(), i));
    const TimeNs begin = w.begin_ns(i), end = std::max<TimeNs>(value(w.end_ns(), i), 0);
    if (last_done && cycle <= *last_done) continue;
    const bool is_active = value(w.phase(), i) == v1::PHASE_ACTIVE;
    if (end >= begin && end != 0) {
      ++seen_step_count;
      if (seen_steps.size() < kMaxSeenSteps) {
        seen_steps.push_back({static_cast<uint64_t>(value(w.index(), i)),
                              static_cast<uint64_t>(end - begin),
                              static_cast<uint8_t>(is_active ? 2 : 1)});
      }
    }
    if (!is_active) continue;
    const auto process_index = static_cast<uint64_t>(value(w.process_index(), i));
    Step& step = At(cycle).active_steps[process_index];
    const auto flags = static_cast<uint32_t>(value(w.flags(), i));
    step.index = static_cast<uint64_t>(value(w.index(), i));
    step.process_index = process_index;
    step.begin_ns = begin;
    if (end != 0) step.end_ns = std::max(end, begin);
    step.thread = dictionary.ThreadIndex(static_cast<uint32_t>(value(w.thread(), i)));
    step.complete = (flags & v1::STEP_CUT) == 0;
    step.contains_tracer_start = (flags & v1::STEP_CONTAINS_TRACER_START) != 0;
    step.partial = (flags & v1::STEP_DEVICE_PARTIAL) != 0;
  }
}

void CycleBuilder::Impl::Losses(const v1::LossReport& losses) {
  for (const auto& k : losses.kinds()) {
    const auto i = static_cast<size_t>(k.activity());
    if (i >= kActivityCount) continue;  // 0: drops of which CUPTI does not say the kind
    // Running totals: an older report that comes late changes nothing.
    const uint64_t dropped = k.dropped_ring_full() + k.dropped_no_ring() + k.dropped_uplink() +
                             k.dropped_cupti() + k.dropped_limit();
    agent_dropped[i] = std::max(agent_dropped[i], dropped);
    agent_invalid[i] = std::max(agent_invalid[i], k.invalid());
    agent_sent[i] = std::max(agent_sent[i], k.sent());
    unknown_drops[i] = unknown_drops[i] || k.cupti_count_unknown();
  }
}

LossTotals CycleBuilder::Impl::CurrentLosses() const {
  LossTotals t;
  t.lost_batches = sequences.missing();
  t.is_unknown = unknown_drops;
  for (size_t i = 0; i < kActivityCount; ++i) {
    const bool has_gap = t.lost_batches > 0;
    const uint64_t in_transit =
        has_gap && agent_sent[i] > received[i] ? agent_sent[i] - received[i] : 0;
    t.dropped[i] = agent_dropped[i] + (i == 0 ? 0 : in_transit);
    t.invalid[i] = agent_invalid[i] + bad_sections[i];
  }
  return t;
}

void CycleBuilder::Impl::Events(const v1::Batch& batch) {
  for (const auto& note : batch.notes()) {
    if (last_done && note.cycle() <= *last_done) continue;
    PendingCycle& p = At(note.cycle());
    if (p.notes.size() < kMaxNotes) p.notes.push_back({note.code(), note.text()});
  }
  for (const auto& report : batch.cycle_reports()) {
    if (last_done && report.cycle() <= *last_done) continue;
    At(report.cycle()).report = report;
  }
  for (const auto& event : batch.cycle_events()) {
    if (last_done && event.cycle() <= *last_done) continue;
    PendingCycle& p = At(event.cycle());
    switch (event.kind()) {
      case v1::CycleEvent::WARMUP_BEGIN:
        p.warmup_begin = event.host_ns();
        break;
      case v1::CycleEvent::ARMED:
        p.armed = event.host_ns();
        break;
      case v1::CycleEvent::ACTIVE_BEGIN:
        if (!p.active_begin) ++cycles_begun;
        p.active_begin = event.host_ns();
        break;
      case v1::CycleEvent::ACTIVE_END:
        p.active_end = event.host_ns();
        p.ended = event.ended();
        p.reason = event.reason();
        break;
      case v1::CycleEvent::CLOSED:
        p.closed = event.host_ns();
        p.losses = CurrentLosses();
        break;
      case v1::CycleEvent::CANCELLED:
        p.cancelled = true;
        break;
      default:
        break;
    }
  }
}

// While nothing but a warmup is going on its records have one use: to tell late device work that it
// was launched outside of any window.
void CycleBuilder::Impl::LetWarmupGo() {
  if (pending.size() != 1 || records.Count() < kWarmupRecords) return;
  PendingCycle& p = pending.begin()->second;
  if (p.HasActive()) return;
  const TimeNs limit = last_host_ns - kWarmupKeptNs;
  const auto count = [&p](Activity a, uint64_t n) {
    p.out_of_window[static_cast<size_t>(a)] += n;
  };
  std::erase_if(records.calls, [&](const Call& call) {
    if (call.begin_ns >= limit) return false;
    if (call.correlation != 0) ghosts.push_back({call.correlation, call.begin_ns});
    count(ActivityOf(call.cls), 1);
    return true;
  });
  if (ghosts.size() > kMaxGhosts) {
    ghosts.erase(ghosts.begin(), ghosts.end() - static_cast<std::ptrdiff_t>(kMaxGhosts / 2));
  }
  count(Activity::kNvtx, std::erase_if(records.ranges,
                                       [limit](const Range& r) { return r.end_ns < limit; }));
  count(Activity::kNvtx,
        std::erase_if(records.marks, [limit](const Mark& m) { return m.at_ns < limit; }));
  // Device records that came before the first active step began were launched before it.
  count(Activity::kKernel, records.kernels.size());
  count(Activity::kMemcpy, records.copies.size());
  count(Activity::kMemset, records.sets.size());
  count(Activity::kOverhead, records.overheads.size());
  count(Activity::kMemory, records.memories.size());
  records.kernels.clear(), records.copies.clear(), records.sets.clear(), records.syncs.clear();
  records.graph_launches.clear(), records.overheads.clear(), records.memories.clear();
}

std::optional<TimeNs> CycleBuilder::Impl::LaterFrom(uint32_t cycle) const {
  for (auto it = pending.upper_bound(cycle); it != pending.end(); ++it) {
    if (const auto begin = it->second.Begin()) return begin;
  }
  return std::nullopt;
}

Cycle CycleBuilder::Impl::Build(const PendingCycle& p, std::string ended, bool has_agents_word) {
  Cycle cycle;
  cycle.session = session;
  cycle.index = p.index;
  cycle.ended = std::move(ended);
  cycle.reason = has_agents_word ? p.reason : "the session ended without a goodbye";
  for (const auto& [ordinal, device] : devices) cycle.devices.push_back(device);
  clock.Prepare(p.Begin().value_or(0));
  cycle.device_residual_ns = clock.ResidualNs();
  AssemblyInput in{.pending = &p,
                   .dictionary = &dictionary,
                   .clock = &clock,
                   .open_ranges = &ranges,
                   .device_of_context = &device_of_context,
                   .later_from = LaterFrom(p.index),
                   .last_host_ns = last_host_ns,
                   .step_source = session.step_source};
  CycleAssembly assembly(in, &records, &ghosts, &cycle);
  assembly.Run();
  cycle.strings = dictionary.strings();
  cycle.threads = dictionary.threads();
  cycle.lanes = dictionary.lanes();
  cycle.shapes = dictionary.shapes();
  cycle.stacks = dictionary.stacks();
  Finish(&cycle, p, assembly);
  Release(in.later_from);
  return cycle;
}

void CycleBuilder::Impl::Finish(Cycle* cycle, const PendingCycle& p,
                                const CycleAssembly& assembly) {
  const LossTotals now = p.losses.value_or(CurrentLosses());
  Verdict verdict{.assembly = &assembly,
                  .pending = &p,
                  .losses = now,
                  .earlier_gpu = last_gpu ? &*last_gpu : nullptr,
                  .requested = requested,
                  .clock_step_ns = clock.StepNs(),
                  .has_clock_samples = has_clock_samples,
                  .saw_device_work = saw_device_work};
  for (size_t i = 0; i < kActivityCount; ++i) {
    verdict.losses.dropped[i] -= std::min(now.dropped[i], accounted.dropped[i]);
    verdict.losses.invalid[i] -= std::min(now.invalid[i], accounted.invalid[i]);
  }
  verdict.losses.lost_batches -= std::min(now.lost_batches, accounted.lost_batches);
  accounted = now;
  FillVerdict(verdict, cycle);
  if (p.report && p.report->has_gpu()) last_gpu = cycle->gpu;
  if (cycle->all_steps.count == 0) {
    cycle->all_steps = AllSteps{.count = seen_step_count, .each = seen_steps};
  }
}

// A cycle without an active step leaves nothing behind but what a later one needs.
void CycleBuilder::Impl::Discard(std::optional<TimeNs> later_from) {
  for (const Call& call : records.calls) {
    const bool is_later = later_from && call.begin_ns >= *later_from;
    if (!is_later && call.correlation != 0) ghosts.push_back({call.correlation, call.begin_ns});
  }
  if (ghosts.size() > kMaxGhosts) ghosts.clear();
  accounted = CurrentLosses();
  Release(later_from);
}

void CycleBuilder::Impl::Release(std::optional<TimeNs> later_from) {
  if (!later_from) {
    // Recording pauses: ends of what is open now would not be seen.
    records = Records();
    ranges.Clear();
    dictionary = Dictionary();
    clock.Forget(last_host_ns);
    return;
  }
  std::erase_if(records.calls, [&](const Call& c) { return c.begin_ns < *later_from; });
  clock.Forget(*later_from);
}

std::vector<Cycle> CycleBuilder::TakeClosed() {
  Impl& s = *impl_;
  std::vector<Cycle> taken;
  for (auto it = s.pending.begin(); it != s.pending.end();) {
    const PendingCycle& p = it->second;
    // In order: a later cycle needs what this one leaves. When a later one is closed already, this
    // one's own end was lost on the way.
    const bool is_superseded = std::any_of(std::next(it), s.pending.end(), [](const auto& later) {
      return later.second.closed.has_value();
    });
    if (!p.closed && !p.cancelled && !is_superseded) break;
    if (p.HasActive()) {
      taken.push_back(s.Build(p, p.ended.empty() ? "schedule" : p.ended, true));
    } else {
      s.Discard(s.LaterFrom(p.index));
    }
    s.last_done = p.index;
    it = s.pending.erase(it);
  }
  return taken;
}

std::vector<Cycle> CycleBuilder::TakeRemaining() {
  Impl& s = *impl_;
  std::vector<Cycle> taken = TakeClosed();
  while (!s.pending.empty()) {
    const PendingCycle& p = s.pending.begin()->second;
    if (p.HasActive()) {
      std::string ended = "killed";
      if (s.goodbye) ended = p.ended.empty() ? *s.goodbye : p.ended;
      taken.push_back(s.Build(p, std::move(ended), s.goodbye.has_value()));
    }
    s.last_done = p.index;
    s.pending.erase(s.pending.begin());
  }
  return taken;
}

CycleBuilder::Progress CycleBuilder::progress() const {
  const Impl& s = *impl_;
  int32_t device = s.devices.empty() ? -1 : s.devices.begin()->first;
  if (!s.device_of_context.empty()) {
    const auto lowest = std::min_element(
        s.device_of_context.begin(), s.device_of_context.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    device = static_cast<int32_t>(lowest->second);
  }
  return {.records = s.total_records,
          .cycles_begun = s.cycles_begun,
          .bytes_held = s.records.Bytes() + s.dictionary.bytes() + s.ghosts.size() * sizeof(Ghost),
          .is_cycle_open = std::any_of(s.pending.begin(), s.pending.end(),
                                       [](const auto& p) { return p.second.HasActive(); }),
          .device = device};
}

}  // namespace stepagent::model
