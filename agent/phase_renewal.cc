// Cycles that overlap: a newer one begins while an older one's tail keeps collection on.
#include <utility>

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
    if (!older.collection) older.collection = Collection{backend_->state(), backend_->kinds()};
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

}  // namespace stepagent::agent
