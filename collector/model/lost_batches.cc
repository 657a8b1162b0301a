#include "collector/model/lost_batches.h"

#include <algorithm>

#include "collector/model/decode_columns.h"

namespace stepagent::model {
namespace {

// A batch may hold records of several cycles, of which the first to end counts it: where it lies in
// time says whose it may be.
bool Touches(const Verdict& v, TimeNs begin_ns, TimeNs end_ns) {
  return (v.is_loss_anywhere && v.losses.lost_batches > 0) ||
         std::any_of(v.lost_spans.begin(), v.lost_spans.end(), [&](const LostSpan& span) {
           return span.begin_ns < end_ns && span.end_ns > begin_ns;
         });
}

// Its device record may have been in a lost batch, however long ago the call was. Launches without
// one mark their steps anyway.
bool OwesRecord(const Cycle& cycle, const Call& call) {
  const Activity activity = call.cls == CallClass::kMemcpy   ? Activity::kMemcpy
                            : call.cls == CallClass::kMemset ? Activity::kMemset
                                                             : Activity::kNone;
  return activity != Activity::kNone && cycle.kinds[static_cast<size_t>(activity)].enabled &&
         !cycle.HostOnly() && !call.failed && !call.captured && !call.empty &&
         call.device_items == 0;
}

void MarkNotWhole(Step* step) {
  step->complete = false;
  step->kernels.reset(), step->copies.reset(), step->sets.reset();
}

}  // namespace

void MarkLossySteps(const Verdict& v, Cycle* cycle) {
  if (!IsTouchedByLoss(v, *cycle)) return;
  for (Step& step : cycle->steps) {
    if (Touches(v, step.begin_ns, step.end_ns)) MarkNotWhole(&step);
  }
  for (const Call& call : cycle->calls) {
    if (call.step != kNoStep && OwesRecord(*cycle, call)) {
      MarkNotWhole(&cycle->steps[static_cast<size_t>(call.step)]);
    }
  }
}

// What came before the window was thrown away in any case; behind it come the device's records.
bool IsTouchedByLoss(const Verdict& v, const Cycle& cycle) {
  return Touches(v, cycle.window_begin_ns, kLatestNs);
}

}  // namespace stepagent::model
