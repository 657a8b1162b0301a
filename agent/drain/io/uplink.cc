#include "agent/drain/io/uplink.h"

#include <algorithm>
#include <utility>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/drain/io/io_state.h"
#include "agent/drain/io/io_thread.h"
#include "agent/guard/thread.h"
#include "proto/frame.h"
#include "proto/limits.h"

namespace stepagent::drain::io {
namespace {

// While Finish waits: the wake-up is repeated, in case a sigaction of the application flushed it.
constexpr uint64_t kFinishLookNs = 50'000'000;

}  // namespace

bool Uplink::Start(const UplinkConfig& config) {
  state_ = std::make_shared<IoState>(config);
  auto* argument = new std::shared_ptr<IoState>(state_);
  if (guard::StartThread(RunIoThread, argument)) return true;
  delete argument;
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  return false;
}

void Uplink::SetCollector(std::string address, std::string hello) {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->collector = std::move(address);
  state_->hello = std::move(hello);
  state_->is_wanted = true;
  ++state_->collector_version;
  state_->wake.Wake();
}

void Uplink::Release() {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->is_wanted = false;
  state_->wake.Wake();
}

void Uplink::ReapOrphan(pid_t pid) {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->orphan = pid;
  state_->wake.Wake();
}

bool Uplink::Submit(uint8_t frame_type, std::string payload, uint64_t sequence,
                    const BatchContent& content) {
  if (state_ == nullptr) return false;
  ReportLines();
  const std::lock_guard lock(state_->mutex);
  const uint64_t bytes = payload.size() + proto::kFrameHeaderBytes;
  // A goodbye is small and always fits (and is for somebody who was there); a frame past the limit
  // of every reader is as good as lost.
  const bool is_batch = frame_type == static_cast<uint8_t>(proto::FrameType::kBatch);
  const bool fits =
      is_batch ? state_->queued_bytes + bytes <= state_->queue_limit : !state_->collector.empty();
  if (state_->is_over || state_->is_finishing || !state_->status.refusal.empty() || !fits ||
      payload.size() > proto::kMaxFrameBytes) {
    AddContent(&state_->losses, content);
    return false;
  }
  state_->queue.push_back({.type = frame_type,
                           .payload = std::move(payload),
                           .sequence = sequence,
                           .content = content});
  state_->queued_bytes += bytes;
  if (is_batch) state_->is_wanted = true;
  state_->wake.Wake();
  return true;
}

BatchContent Uplink::TakeLosses() {
  if (state_ == nullptr) return {};
  ReportLines();
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->losses, {});
}

Uplink::Status Uplink::status() {
  if (state_ == nullptr) return {};
  ReportLines();
  const std::lock_guard lock(state_->mutex);
  Status status = state_->status;
  status.queued_bytes = state_->queued_bytes;
  return status;
}

std::vector<WrittenCycle> Uplink::TakeWritten() {
  if (state_ == nullptr) return {};
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->written, {});
}

std::vector<PendingRequest> Uplink::TakeRequests() {
  if (state_ == nullptr) return {};
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->requests, {});
}

void Uplink::Answer(uint64_t request_id, std::string encoded_answer) {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->is_over) return;
  state_->answers.emplace_back(request_id, std::move(encoded_answer));
  state_->wake.Wake();
}

void Uplink::Finish(uint64_t deadline_ns) {
  if (state_ == nullptr) return;
  const uint64_t end_ns = core::HostClock::MonotonicNs() + deadline_ns;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_finishing = true;
    state_->finish_deadline_ns = end_ns;
  }
  while (state_->ended.load(std::memory_order_acquire) == 0) {  // pairs with the bump at its end
    const uint64_t now_ns = core::HostClock::MonotonicNs();
    if (now_ns >= end_ns) break;
    {
      const std::lock_guard lock(state_->mutex);
      state_->wake.Wake();
    }
    core::FutexWait(&state_->ended, 0, std::min(end_ns - now_ns, kFinishLookNs));
  }
  ReportLines();
  const std::lock_guard lock(state_->mutex);
  if (state_->is_over) return;
  // It did not make it in time. What it is sending is as good as lost, and it will count nothing.
  state_->LoseQueued();
  state_->is_abandoned = true;
}

void Uplink::ForgetAll() {
  // Never destroyed: its mutex may have been held when the process forked.
  if (state_ != nullptr) new std::shared_ptr<IoState>(std::move(state_));
  state_ = nullptr;
}

void Uplink::ReportLines() {
  if (state_->report == nullptr) return;
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->lines.empty()) return;
    lines.swap(state_->lines);
  }
  for (const std::string& line : lines) state_->report(line.c_str());
}

}  // namespace stepagent::drain::io
