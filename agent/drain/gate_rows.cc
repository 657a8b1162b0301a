#include "agent/drain/gate_rows.h"

#include "agent/core/clock.h"
#include "agent/drain/message_writer.h"

namespace stepagent::drain {
namespace {

// batch.proto CycleEvent.Kind.
enum : uint32_t { kWarmupBegin = 1, kActiveBegin = 3, kActiveEnd = 4, kCancelled = 6 };

}  // namespace

void GateRows::Add(const core::GateEvent& event) {
  using Kind = core::GateEvent::Kind;
  const int64_t at_ns = core::HostClock::ToNs(event.ticks);
  switch (event.kind) {
    case Kind::kStepBegin:
      return BeginStep(event, at_ns);
    case Kind::kStepEnd:
      return EndStep(event, at_ns);
    case Kind::kWarmupBegin:
      return AddCycleEvent(event.cycle, kWarmupBegin, at_ns, "", "");
    case Kind::kActiveBegin:
      return AddCycleEvent(event.cycle, kActiveBegin, at_ns, "", "");
    case Kind::kActiveEnd:
      return AddCycleEvent(event.cycle, kActiveEnd, at_ns, core::EndedName(event.ended), "");
    case Kind::kCancelled:
      return AddCycleEvent(event.cycle, kCancelled, at_ns, core::EndedName(event.ended), "");
  }
}

void GateRows::BeginStep(const core::GateEvent& event, int64_t at_ns) {
  is_open_ = event.phase == core::Phase::kWarmup || event.phase == core::Phase::kActive;
  if (!is_open_) return;
  open_ = Step{.index = event.index,
               .process_index = event.process_index,
               .begin_ns = at_ns,
               .end_ns = 0,
               .phase = static_cast<uint32_t>(event.phase),
               .cycle = event.cycle,
               .flags = event.flags,
               .tid = event.tid,
               .thread = 0};
  open_row_ = steps_.size();
  steps_.push_back(open_);
}

void GateRows::EndStep(const core::GateEvent& event, int64_t at_ns) {
  if (!is_open_ || open_.process_index != event.process_index) return;
  is_open_ = false;
  open_.end_ns = at_ns > open_.begin_ns ? at_ns : open_.begin_ns;
  open_.flags |= event.flags;
  if (open_row_ == kNotHere) {
    steps_.push_back(open_);
  } else {
    steps_[open_row_] = open_;
  }
}

void GateRows::AddCycleEvent(uint32_t cycle, uint32_t kind, int64_t host_ns, std::string_view ended,
                             std::string_view reason) {
  events_.push_back(Event{.cycle = cycle,
                          .kind = kind,
                          .host_ns = host_ns,
                          .ended = std::string(ended),
                          .reason = std::string(reason)});
}

void GateRows::WriteStepColumns(BatchWriter* batch) const {
  if (steps_.empty()) return;
  using enum wire::Steps;
  protozero::pbf_builder<wire::Steps> message(*batch, wire::Batch::steps);
  message.add_uint32(count, static_cast<uint32_t>(steps_.size()));
  Column column;
  const auto put = [&](wire::Steps field, auto&& value_of) {
    column.Clear();
    for (uint32_t row = 0; row < steps_.size(); ++row) column.Add(row, value_of(steps_[row]));
    if (!column.empty()) message.add_bytes(field, column.data(), column.size());
  };
  put(index, [](const Step& s) { return s.index; });
  put(process_index, [](const Step& s) { return s.process_index; });
  put(phase, [](const Step& s) { return s.phase; });
  put(cycle, [](const Step& s) { return s.cycle; });
  put(begin_ns, [](const Step& s) { return protozero::encode_zigzag64(s.begin_ns); });
  put(end_ns, [](const Step& s) { return protozero::encode_zigzag64(s.end_ns); });
  put(flags, [](const Step& s) { return s.flags; });
  put(thread, [](const Step& s) { return s.thread; });
}

void GateRows::WriteCycleEvents(BatchWriter* batch) const {
  for (const Event& event : events_) {
    protozero::pbf_builder<wire::CycleEvent> message(*batch, wire::Batch::cycle_events);
    PutUint(&message, wire::CycleEvent::cycle, event.cycle);
    PutUint(&message, wire::CycleEvent::kind, event.kind);
    PutSigned(&message, wire::CycleEvent::host_ns, event.host_ns);
    PutText(&message, wire::CycleEvent::ended, event.ended);
    PutText(&message, wire::CycleEvent::reason, event.reason);
  }
}

void GateRows::Clear() {
  steps_.clear();
  events_.clear();
  open_row_ = kNotHere;
}

}  // namespace stepagent::drain
