#include "collector/model/builder.h"

#include <algorithm>
#include <utility>

#include "collector/model/balance.h"
#include "collector/model/builder_impl.h"
#include "collector/model/decode_columns.h"
#include "collector/model/process_end.h"
#include "proto/frame.h"

namespace stepagent::model {
namespace {

// Exactly what is needed where it is the first, and never less than doubling would give.
template <typename T>
void MakeRoom(std::vector<T>* items, uint64_t more) {
  const size_t needed = items->size() + more;
  if (needed > items->capacity()) items->reserve(std::max(needed, 2 * items->capacity()));
}

bool EndsCycle(const v1::Batch& batch) {
  return std::any_of(
      batch.cycle_events().begin(), batch.cycle_events().end(), [](const v1::CycleEvent& event) {
        return event.kind() == v1::CycleEvent::CLOSED || event.kind() == v1::CycleEvent::CANCELLED;
      });
}

bool BeginsCycle(const v1::Batch& batch) {
  return std::any_of(batch.cycle_events().begin(), batch.cycle_events().end(),
                     [](const v1::CycleEvent& event) {
                       return event.kind() == v1::CycleEvent::WARMUP_BEGIN ||
                              event.kind() == v1::CycleEvent::ACTIVE_BEGIN;
                     });
}

}  // namespace

CycleBuilder::CycleBuilder(const v1::Hello& hello) : impl_(std::make_unique<Impl>(hello)) {}
CycleBuilder::~CycleBuilder() = default;

void CycleBuilder::Update(const v1::Hello& hello) { impl_->Greet(hello); }

void CycleBuilder::Add(const v1::Batch& batch) {
  std::string payload = batch.SerializeAsString();
  BatchHead head;
  if (ReadBatchHead(payload, &head)) Add(head, std::move(payload));
}

void CycleBuilder::Add(const BatchHead& head, std::string payload) {
  Impl& s = *impl_;
  const v1::Batch& batch = head.fields;
  s.batch_begin = s.stream_bytes;
  s.stream_bytes += proto::kFrameHeaderBytes + payload.size();
  const uint64_t missing_before = s.sequences.missing(), expected = s.sequences.next();
  if (!s.sequences.Accept(batch.sequence())) return;
  s.NoteGap(expected, batch);
  s.last_host_ns =
      std::max(s.last_host_ns, static_cast<TimeNs>(std::min<uint64_t>(batch.host_ns(), kLatestNs)));
  s.Surroundings(batch);
  // Steps refer to threads, too. A batch of neither, as an idle session sends, leaves nothing.
  if (!s.is_skimming && (head.has_sections || batch.has_threads()))
    s.Hold(head, std::move(payload));
  s.saw_device_work = s.saw_device_work || head.has_work;
  s.Steps(batch.steps());
  if (batch.has_losses()) s.Losses(batch.losses(), batch.sequence());
  if (std::exchange(s.is_between_stays, false) && s.sequences.missing() > missing_before &&
      BeginsCycle(batch)) {
    s.LeaveOutOtherFolders(s.sequences.missing() - missing_before);
  }
  // What was not looked at did come: it is no loss of a later cycle.
  if (s.is_skimming) s.received = s.agent_sent;
  // What was received is told beside what was sent when a cycle is closed.
  if (EndsCycle(batch)) s.DecodeHeld();
  s.Events(batch);
  s.LetWarmupGo();
}

// `start --out OTHER` takes a session elsewhere for some cycles: their batches never were this
// folder's, which a goodbye left complete. The batch that begins the next cycle here is in already.
void CycleBuilder::Impl::LeaveOutOtherFolders(uint64_t batches) {
  elsewhere += batches;
  if (!gaps.empty()) gaps.pop_back();
  DecodeHeld();
  for (size_t i = 0; i < kActivityCount; ++i) received[i] = std::max(received[i], agent_sent[i]);
}

// A batch holds what was made since the one before it was closed; what waited in a thread's buffer
// may be a little older, so that the hole is taken to begin a batch earlier.
void CycleBuilder::Impl::NoteGap(uint64_t expected, const v1::Batch& batch) {
  constexpr size_t kMaxGaps = 4096;
  if (batch.sequence() < expected) return;  // a late one, which fills a gap
  const auto host_ns = static_cast<TimeNs>(std::min<uint64_t>(batch.host_ns(), kLatestNs));
  if (batch.sequence() > expected && gaps.size() < kMaxGaps) {
    gaps.push_back({expected, batch.sequence(), {before_newest_ns, host_ns}});
  }
  before_newest_ns = newest_batch_ns;
  newest_batch_ns = host_ns;
}

void CycleBuilder::Impl::FillLostSpans(Verdict* verdict) const {
  uint64_t placed = elsewhere;
  for (const Gap& gap : gaps) {
    if (!sequences.IsAnyMissing(gap.first, gap.end)) continue;
    verdict->lost_spans.push_back(gap.span);
    placed += gap.end - gap.first;
  }
  // Beyond the table of gaps, or no message once it was looked into.
  verdict->is_loss_anywhere = unreadable > 0 || placed < sequences.missing();
}

void CycleBuilder::Impl::Hold(const BatchHead& head, std::string payload) {
  held_bytes += payload.capacity() + sizeof payload;
  held_records += head.records;
  held_calls += head.calls;
  held_kernels += head.kernels;
  held_range_ops += head.range_ops;
  held.push_back(std::move(payload));
  CountTexts(head.fields);
}

void CycleBuilder::Impl::CountTexts(const v1::Batch& batch) {
  const v1::Strings& strings = batch.strings();
  for (int i = 0; i < std::min(strings.id_size(), strings.text_size()); ++i) {
    if (text_ids.insert(strings.id(i)).second) text_bytes += strings.text(i).size();
  }
  const v1::Stacks& stacks = batch.stacks();
  for (int i = 0; i < std::min(stacks.id_size(), stacks.stack_size()); ++i) {
    const v1::Stack& stack = stacks.stack(i);
    const auto frames = static_cast<uint64_t>(stack.frames_size() + stack.frame_size());
    if (stack_ids.insert(stacks.id(i)).second) text_bytes += frames * sizeof(uint64_t);
  }
}

void CycleBuilder::Impl::ForgetTexts() {
  dictionary = Dictionary();
  text_ids.clear();
  stack_ids.clear();
  text_bytes = 0;
}

void CycleBuilder::Impl::DecodeHeld() {
  if (held.empty()) return;
  const uint64_t before = records.Count();
  MakeRoom(&records.calls, held_calls);
  MakeRoom(&records.kernels, held_kernels);
  v1::Batch batch;
  for (std::string& payload : held) {
    if (batch.ParseFromString(payload)) {
      DecodeRecords(batch, {.dictionary = &dictionary,
                            .records = &records,
                            .ranges = &ranges,
                            .received = &received,
                            .invalid = &bad_sections});
    } else {
      ++unreadable;
    }
    payload = std::string();
  }
  total_records += records.Count() - before;
  held = std::vector<std::string>();
  held_bytes = held_records = held_calls = held_kernels = held_range_ops = 0;
}

void CycleBuilder::Add(const v1::Goodbye& goodbye) {
  Impl& s = *impl_;
  s.goodbye = goodbye.ended().empty() ? "exit" : goodbye.ended();
  s.is_between_stays = true;
  if (goodbye.last_sequence() != 0) {
    const uint64_t expected = s.sequences.next();
    s.sequences.Expect(goodbye.last_sequence());
    const uint64_t end = s.sequences.next();
    if (end > expected) s.gaps.push_back({expected, end, {s.before_newest_ns, kLatestNs}});
  }
  if (goodbye.has_losses()) s.Losses(goodbye.losses(), UINT64_MAX);
  s.tells_later_steps = goodbye.has_all_steps();
  if (s.tells_later_steps) s.step_rows.Take(goodbye.all_steps());
  s.TellLaterStepsAtEnd();
}

void CycleBuilder::Add(const v1::TargetEnded& ended) { impl_->ended = ended; }

// Nobody but its parent learns how a process ended; without that word only that it did.
void CycleBuilder::Impl::NoteKilled(Cycle* cycle) const {
  cycle->reason = "the session ended without a goodbye";
  if (!ended) return;
  cycle->reason = EndText(ended->signal(), ended->exit_status());
  if (ended->signal() != 0) {
    cycle->killed_by_signal = ended->signal();
  } else {
    cycle->exit_status = ended->exit_status();
  }
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
  if (has_agents_word) {
    cycle.reason = p.reason;
  } else {
    NoteKilled(&cycle);
  }
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
  CycleAssembly assembly(in, &records, &gone_launches, &cycle);
  assembly.Run();
  cycle.strings = dictionary.strings();
  cycle.threads = dictionary.threads();
  cycle.lanes = dictionary.lanes();
  cycle.shapes = dictionary.shapes();
  cycle.stacks = dictionary.stacks();
  Finish(&cycle, p, assembly);
  TakeSteps(p, has_agents_word, &cycle);
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
                  .suspended_ms = clock.SuspendedMs(),
                  .has_clock_samples = has_clock_samples,
                  .saw_device_work = saw_device_work};
  for (size_t i = 0; i < kActivityCount; ++i) {
    verdict.losses.dropped[i] -= std::min(now.dropped[i], accounted.dropped[i]);
    verdict.losses.invalid[i] -= std::min(now.invalid[i], accounted.invalid[i]);
  }
  for (uint64_t LossTotals::*const count :
       {&LossTotals::lost_batches, &LossTotals::ring_full, &LossTotals::no_buffer,
        &LossTotals::uplink, &LossTotals::past_limit}) {
    verdict.losses.*count -= std::min(now.*count, accounted.*count);
  }
  accounted = now;
  FillLostSpans(&verdict);
  cycle->cost.raw_bytes = p.end_byte.value_or(stream_bytes) - p.first_byte;
  FillVerdict(verdict, cycle);
  if (p.report && p.report->has_gpu()) last_gpu = cycle->gpu;
}

// A cycle without an active step leaves nothing behind but what a later one needs.
void CycleBuilder::Impl::Discard(std::optional<TimeNs> later_from) {
  for (const Call& call : records.calls) {
    const bool is_later = later_from && call.begin_ns >= *later_from;
    if (!is_later && call.correlation != 0)
      gone_launches.push_back({call.correlation, Launch::kEarlier, call.begin_ns});
  }
  if (gone_launches.size() > kMostGoneLaunches) gone_launches.clear();
  accounted = CurrentLosses();
  Release(later_from);
}

void CycleBuilder::Impl::Release(std::optional<TimeNs> later_from) {
  if (!later_from) {
    // Recording pauses: ends of what is open now would not be seen.
    records = Records();
    ranges.Clear();
    ForgetTexts();
    clock.Forget(last_host_ns);
    return;
  }
  std::erase_if(records.calls, [&](const Call& c) { return c.begin_ns < *later_from; });
  clock.Forget(*later_from);
}

void CycleBuilder::LetGo() {
  Impl& s = *impl_;
  if (s.pending.empty()) return;
  for (auto& [index, p] : s.pending) p.is_let_go = true;
  s.is_skimming = true;
  s.held = std::vector<std::string>();
  s.held_bytes = s.held_records = s.held_calls = s.held_kernels = s.held_range_ops = 0;
  s.records = Records();
  s.ranges.Clear();
  s.ForgetTexts();
  s.gone_launches = {};
}

std::vector<uint32_t> CycleBuilder::TakeLetGo() { return std::exchange(impl_->let_go, {}); }

std::vector<Cycle> CycleBuilder::TakeClosed() {
  Impl& s = *impl_;
  std::vector<Cycle> taken;
  const bool is_any_over = std::any_of(s.pending.begin(), s.pending.end(), [](const auto& p) {
    return p.second.closed || p.second.cancelled;
  });
  if (is_any_over) s.DecodeHeld();
  for (auto it = s.pending.begin(); it != s.pending.end();) {
    const PendingCycle& p = it->second;
    // In order: a later cycle needs what this one leaves. When a later one is closed already, this
    // one's own end was lost on the way.
    const bool is_superseded = std::any_of(std::next(it), s.pending.end(), [](const auto& later) {
      return later.second.closed.has_value();
    });
    if (!p.closed && !p.cancelled && !is_superseded) break;
    if (p.is_let_go) {
      s.EndLetGo(p);
    } else if (p.HasActive()) {
      taken.push_back(s.Build(p, p.ended.empty() ? "schedule" : p.ended, true));
    } else {
      s.Discard(s.LaterFrom(p.index));
    }
    s.Leave(p.index);
    it = s.pending.erase(it);
    s.is_skimming = s.is_skimming && std::any_of(s.pending.begin(), s.pending.end(),
                                                 [](auto& left) { return left.second.is_let_go; });
  }
  return taken;
}

std::vector<Cycle> CycleBuilder::TakeRemaining() {
  Impl& s = *impl_;
  std::vector<Cycle> taken = TakeClosed();
  s.DecodeHeld();
  while (!s.pending.empty()) {
    const PendingCycle& p = s.pending.begin()->second;
    if (p.is_let_go) {
      s.EndLetGo(p);
    } else if (p.HasActive()) {
      std::string ended = "killed";
      if (s.goodbye) ended = p.ended.empty() ? *s.goodbye : p.ended;
      taken.push_back(s.Build(p, std::move(ended), s.goodbye.has_value()));
    }
    s.Leave(p.index);
    s.pending.erase(s.pending.begin());
  }
  if (!s.is_last_told) s.TellLaterStepsAtEnd();
  return taken;
}

CycleBuilder::Progress CycleBuilder::progress() const {
  const Impl& s = *impl_;
  int32_t device = s.devices.empty() ? -1 : s.devices.begin()->first;
  if (!s.device_of_context.empty()) {
    const auto lowest =
        std::min_element(s.device_of_context.begin(), s.device_of_context.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    device = static_cast<int32_t>(lowest->second);
  }
  return {.records = s.total_records + s.held_records,
          .cycles_begun = s.cycles_begun,
          .records_held = s.records.Count() + s.held_records - s.held_range_ops / 2,
          .texts_held = s.text_ids.size() + s.stack_ids.size(),
          .text_bytes_held = s.text_bytes,
          .launch_bytes_held = s.gone_launches.size() * sizeof(Launch),
          .bytes_held = s.records.Bytes() + s.held_bytes + s.dictionary.bytes() +
                        s.gone_launches.size() * sizeof(Launch),
          .is_cycle_open = std::any_of(s.pending.begin(), s.pending.end(),
                                       [](const auto& p) { return p.second.HasActive(); }),
          .is_warming = !s.pending.empty() && !s.pending.rbegin()->second.HasActive(),
          .step = s.last_step,
          .device = device};
}

}  // namespace stepagent::model
