// What a running session is at, for those who watch, and how much memory it may hold.
#include <algorithm>

#include <malloc.h>

#include "collector/ingest/pipeline.h"
#include "proto/shell_word.h"

namespace stepagent::ingest {

void SessionPipeline::TellFigures(const v1::Batch& batch) {
  const model::CycleBuilder::Progress progress = builder_->progress();
  const auto state = progress.is_cycle_open ? Live::State::kActive
                     : progress.is_warming  ? Live::State::kWarmup
                                            : Live::State::kWait;
  live_state_.store(state, std::memory_order_relaxed);
  live_step_.store(progress.step, std::memory_order_relaxed);
  live_ring_bytes_.store(batch.gauges().ring_bytes(), std::memory_order_relaxed);
  live_ring_waiting_.store(batch.gauges().ring_bytes_waiting(), std::memory_order_relaxed);
  live_cupti_buffers_.store(batch.gauges().cupti_buffers(), std::memory_order_relaxed);
  if (batch.has_losses()) TellLosses(batch.losses());
  if (!hooks_.on_report) return;
  for (const v1::CycleReport& report : batch.cycle_reports()) hooks_.on_report(report);
}

void SessionPipeline::TellLosses(const v1::LossReport& report) {
  const LossCounts more = losses_.Raise(report);
  if (hooks_.on_losses) hooks_.on_losses(more);
}

SessionPipeline::Live SessionPipeline::live() const {
  Live live;
  live.state = live_state_.load(std::memory_order_relaxed);
  live.step = live_step_.load(std::memory_order_relaxed);
  live.ring_bytes = live_ring_bytes_.load(std::memory_order_relaxed);
  live.ring_bytes_waiting = live_ring_waiting_.load(std::memory_order_relaxed);
  live.cupti_buffers = live_cupti_buffers_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  live.raw_bytes = state_.raw_bytes;
  live.rank = state_.session.rank;
  return live;
}

// Asked on another session's thread, so that the answer comes even from a process that is silent.
void SessionPipeline::JoinMemory() {
  if (hooks_.memory == nullptr || !hooks_.post_frame) return;
  const std::weak_ptr<SessionPipeline> weak = weak_from_this();
  hooks_.memory->Join(this, [weak, post = hooks_.post_frame] {
    post([weak] {
      const auto self = weak.lock();
      if (self && !self->is_finished_) self->KeepWithinMemory();
    });
  });
}

// Before this session's memory is too much with that of the others.
void SessionPipeline::KeepWithinMemory() {
  if (hooks_.memory == nullptr) return;
  if (!hooks_.memory->IsTooMuch(this, NeedOf(builder_->progress()))) return;
  builder_->LetGo();
  static_cast<void>(hooks_.memory->IsTooMuch(this, 0));
  malloc_trim(0);  // what came in pieces would else stay with the allocator
}

void SessionPipeline::AddPending(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  pending_bytes_ += static_cast<uint64_t>(bytes);
  if (hooks_.memory != nullptr) hooks_.memory->SetClosed(this, pending_bytes_);
}

void SessionPipeline::TellLetGo() {
  const std::vector<uint32_t> cycles = builder_->TakeLetGo();
  if (cycles.empty()) return;
  Settle();  // the folder's name is part of what is told
  for (const uint32_t index : cycles) {
    // An earlier collector wrote it, or told already.
    if (!IsWritten(Place(), index) && !WasDeferred(index)) Defer(index);
  }
  SaveState();
}

// By an earlier collector of this session, whose agent was told: it stays so while that lives.
bool SessionPipeline::WasDeferred(uint32_t cycle) const {
  const std::lock_guard lock(mutex_);
  return runs_ != nullptr && std::any_of(state_.cycles.begin(), state_.cycles.end(),
                                         [&](const spool::CycleEntry& entry) {
                                           return entry.index == cycle && entry.state == "deferred";
                                         });
}

// A cycle of which only the raw file has the records. Whoever waits for it is told.
void SessionPipeline::Defer(uint32_t cycle) {
  const std::string folder = proto::ShellWord(session_dir());
  const std::string why = "deferred: it needs more than the collector's memory limit of " +
                          hooks_.memory->Text() +
                          " (STEPAGENT_COLLECTOR_MEMORY); no record is lost: `stepagent report " +
                          folder + "` writes it when the process has ended";
  {
    const std::lock_guard lock(mutex_);
    spool::CycleEntry& entry = EntryOf(cycle);
    entry.state = "deferred";
    entry.error = why;
  }
  if (hooks_.on_problem) hooks_.on_problem("cycle " + std::to_string(cycle) + ": " + why);
  if (hooks_.on_deferred) hooks_.on_deferred(cycle);
  v1::Written written;
  written.set_cycle(cycle);
  written.set_error(why);
  if (hooks_.on_written) hooks_.on_written(written);
}

}  // namespace stepagent::ingest
