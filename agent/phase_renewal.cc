// Cycles that overlap: a newer one begins while an older one's tail keeps collection on.
#include <utility>

#include "agent/mutex_lock.h"
#include "agent/phase_controller.h"

namespace stepagent::agent {

cupti::ArmRequest PhaseController::Request(bool inside_injection) {
  cupti::ArmRequest request;
  request.activities = options_.activities;
  request.graph_nodes = options_.graph_nodes;
  request.native_stacks = options_.native_stacks && PrepareStacks();
  request.inside_injection = inside_injection;
  request.calls_are_on = callbacks_on_;
  return request;
}

// The older cycles' reports are still to be written: what held for them is kept.
void PhaseController::RenewLocked() {
  must_renew_ = false;
  for (ClosingCycle& older : closing_) {
    if (!older.at_last) older.at_last = Collection{backend_->state(), backend_->kinds()};
  }
  backend_->Arm(Request(/*inside_injection=*/false));
  arm_tried_ = !backend_->IsArmed();
  drainer_->SetAwaited(EnabledKinds());
}

uint32_t PhaseController::EnabledKinds() const {
  uint32_t enabled = 0;
  for (const cupti::KindState& kind : backend_->kinds()) {
    if (kind.enabled) enabled |= proto::ActivityBit(kind.activity);
  }
  return enabled;
}

// CUPTI counts its drops for the whole process. Called before a cycle leaves and before one begins,
// so those here now are all that may have lost what is new.
void PhaseController::NoteDrops() {
  const uint64_t dropped = backend_->counters().cupti_dropped;
  const uint64_t before = std::exchange(drops_seen_, dropped);
  if (dropped <= before || closing_.size() + (recording_ ? 1 : 0) < 2) return;
  for (ClosingCycle& closing : closing_) closing.shared_drops += dropped - before;
  if (recording_) shared_drops_ += dropped - before;
}

// Work that never ends holds back the finished records beside it, and only a forced flush fetches
// those. It cuts what runs at that moment, so newer windows and their tails first get the time that
// is theirs: up to once more the grace time.
bool PhaseController::IsTailOver(const core::StepGate::Snapshot& gate, uint64_t now_ns) const {
  const uint64_t waited_ns = now_ns - closing_.front().since_ns;
  const bool has_newer_work = gate.window_open || now_ns - closing_.back().since_ns < grace_ns_;
  return waited_ns >= grace_ns_ && (!has_newer_work || waited_ns >= 2 * grace_ns_);
}

// Another window's tail may keep the kinds on, and at an exit nobody flushed before: what is
// complete is taken before this cycle is judged. Forced: and what work without an end holds back.
void PhaseController::CollectComplete(uint64_t now_ns, bool forced) {
  {
    MutexLock lock(&arm_mutex_);
    if (!backend_->IsArmed()) return;
    forced ? backend_->FlushForced() : backend_->FlushPlain();
  }
  while (drainer_->RunOnce(now_ns, /*decode=*/true) != 0) {
  }
}

}  // namespace stepagent::agent
