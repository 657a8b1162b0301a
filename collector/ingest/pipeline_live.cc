// What a running session is at, for those who watch.
#include "collector/ingest/pipeline.h"

namespace stepagent::ingest {

void SessionPipeline::TellFigures(const v1::Batch& batch) {
  const model::CycleBuilder::Progress progress = builder_->progress();
  const auto state = progress.is_cycle_open ? Live::State::kActive
                     : progress.is_warming  ? Live::State::kWarmup
                                            : Live::State::kWait;
  live_state_.store(state, std::memory_order_relaxed);
  live_step_.store(progress.step, std::memory_order_relaxed);
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
  const std::lock_guard lock(mutex_);
  live.raw_bytes = state_.raw_bytes;
  live.rank = state_.session.rank;
  return live;
}

}  // namespace stepagent::ingest
