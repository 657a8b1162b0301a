// What a batch tells besides its records: events, steps, losses, devices, clocks.
#include <algorithm>
#include <cstdio>

#include "collector/model/builder_impl.h"
#include "collector/model/decode_columns.h"

namespace stepagent::model {
namespace {

// Warmup records are let go once they are this old and this many: long warmups must not fill
// memory.
constexpr TimeNs kWarmupKeptNs = 5'000'000'000;
constexpr uint64_t kWarmupRecords = 1 << 16;
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

void CycleBuilder::Impl::Greet(const v1::Hello& hello) {
  session = SessionFromHello(hello);
  requested.clear();
  for (const std::string& name : session.activities) {
    if (const auto activity = ActivityFromName(name)) requested.insert(*activity);
  }
}

void CycleBuilder::Impl::Surroundings(const v1::Batch& batch) {
  for (const auto& d : batch.devices()) {
    devices.insert_or_assign(static_cast<int32_t>(d.ordinal()), FromWire(d));
  }
  for (const auto& c : batch.contexts()) device_of_context[c.id()] = c.device();
  const auto& samples = batch.clock_samples();
  const int n = std::min(samples.host_ns_size(), samples.real_ns_size());
  for (int i = 0; i < n; ++i) {
    clock.Add(ClampTime(samples.host_ns(i)), ClampTime(samples.real_ns(i)),
              i < samples.bracket_ns_size() ? samples.bracket_ns(i) : 0,
              i < samples.suspended_ms_size() ? samples.suspended_ms(i) : 0);
    has_clock_samples = true;
  }
}

void CycleBuilder::Impl::Steps(const v1::Steps& w) {
  const int n = std::min<int>(w.begin_ns_size(), static_cast<int>(w.count()));
  const auto value = [](const auto& column, int i) { return i < column.size() ? column[i] : 0; };
  for (int i = 0; i < n; ++i) {
    const auto cycle = static_cast<uint32_t>(value(w.cycle(), i));
    const TimeNs begin = ClampTime(w.begin_ns(i));
    const TimeNs end = std::max<TimeNs>(ClampTime(value(w.end_ns(), i)), 0);
    if (last_done && cycle <= *last_done) continue;
    const bool is_active = value(w.phase(), i) == v1::PHASE_ACTIVE;
    if (end >= begin && end != 0) {
      ++seen_step_count;
      if (seen_steps.size() < kMaxSeenSteps) {
        seen_steps.push_back({static_cast<uint64_t>(value(w.process_index(), i)),
                              static_cast<uint64_t>(end - begin),
                              static_cast<uint8_t>(is_active ? 2 : 1)});
      }
    }
    const auto process_index = static_cast<uint64_t>(value(w.process_index(), i));
    last_step = std::max(last_step, process_index);
    const auto first = first_steps.try_emplace(cycle, process_index).first;
    first->second = std::min(first->second, process_index);
    const auto flags = static_cast<uint32_t>(value(w.flags(), i));
    const bool is_whole = end >= begin && end != 0 && (flags & v1::STEP_CUT) == 0;
    if (is_whole) step_rows.Learn(process_index, static_cast<uint64_t>(end - begin));
    if (!is_active) continue;
    Step& step = At(cycle).active_steps[process_index];
    step.index = static_cast<uint64_t>(value(w.index(), i));
    step.process_index = process_index;
    step.begin_ns = begin;
    if (end != 0) step.end_ns = std::max(end, begin);
    step.thread = dictionary.ThreadIndex(static_cast<uint32_t>(value(w.thread(), i)));
    step.ended = step.complete = (flags & v1::STEP_CUT) == 0;
    step.contains_tracer_start = (flags & v1::STEP_CONTAINS_TRACER_START) != 0;
    step.partial = (flags & v1::STEP_DEVICE_PARTIAL) != 0;
  }
}

void CycleBuilder::Impl::Losses(const v1::LossReport& losses, uint64_t order) {
  if (order < losses_order) return;
  losses_order = order;
  agent_causes = LossTotals();
  for (const auto& k : losses.kinds()) {
    agent_causes.ring_full += k.dropped_ring_full();
    agent_causes.no_buffer += k.dropped_no_ring();
    agent_causes.uplink += k.dropped_uplink();
    agent_causes.past_limit += k.dropped_limit();
    const auto i = static_cast<size_t>(k.activity());
    if (i >= kActivityCount) continue;  // 0: drops of which CUPTI does not say the kind
    const uint64_t dropped = k.dropped_ring_full() + k.dropped_no_ring() + k.dropped_uplink() +
                             k.dropped_cupti() + k.dropped_limit();
    agent_dropped[i] = dropped;
    agent_invalid[i] = k.invalid();
    agent_sent[i] = k.sent();  // shrinks when a batch could not be sent after all
    unknown_drops[i] = unknown_drops[i] || k.cupti_count_unknown();
  }
}

LossTotals CycleBuilder::Impl::CurrentLosses() const {
  LossTotals t = agent_causes;
  t.lost_batches = sequences.missing() - std::min(elsewhere, sequences.missing()) + unreadable;
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
        p.warmup_begin = ClampTime(event.host_ns());
        break;
      case v1::CycleEvent::ARMED:
        p.armed = ClampTime(event.host_ns());
        break;
      case v1::CycleEvent::ACTIVE_BEGIN:
        if (!p.active_begin) ++cycles_begun;
        p.active_begin = ClampTime(event.host_ns());
        break;
      case v1::CycleEvent::ACTIVE_END:
        p.active_end = ClampTime(event.host_ns());
        p.ended = event.ended();
        p.reason = event.reason();
        break;
      case v1::CycleEvent::CLOSED:
        p.closed = ClampTime(event.host_ns());
        if (!event.reason().empty()) p.reason = event.reason();
        p.losses = CurrentLosses();
        p.end_byte = stream_bytes;
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
  if (pending.size() != 1 || records.Count() + held_records < kWarmupRecords) return;
  // All that is kept is looked at, so not before enough came to be worth it.
  if (2 * held_records < records.Count()) return;
  PendingCycle& p = pending.begin()->second;
  if (p.HasActive()) return;
  DecodeHeld();
  const TimeNs limit = last_host_ns - kWarmupKeptNs;
  const auto count = [&p](Activity a, uint64_t n) { p.out_of_window[static_cast<size_t>(a)] += n; };
  std::erase_if(records.calls, [&](const Call& call) {
    if (call.begin_ns >= limit) return false;
    if (call.correlation != 0)
      gone_launches.push_back({call.correlation, Launch::kEarlier, call.begin_ns});
    count(ActivityOf(call.cls), 1);
    return true;
  });
  if (gone_launches.size() > kMostGoneLaunches) {
    gone_launches.erase(gone_launches.begin(),
                        gone_launches.end() - static_cast<std::ptrdiff_t>(kMostGoneLaunches / 2));
  }
  count(Activity::kNvtx,
        std::erase_if(records.ranges, [limit](const Range& r) { return r.end_ns < limit; }));
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

}  // namespace stepagent::model
