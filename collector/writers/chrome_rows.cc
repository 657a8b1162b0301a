#include "collector/writers/chrome_rows.h"

#include <algorithm>

#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/stack_frames.h"

namespace stepagent::writers {
namespace {

uint64_t FirstFreeFlowId(const model::Cycle& cycle) {
  uint64_t largest = 0;
  for (const model::Call& call : cycle.calls) {
    largest = std::max<uint64_t>(largest, std::max(call.flow_id, call.correlation));
  }
  return largest + 1;
}

std::string LaneArgs(const model::Lane& lane, bool is_kernel) {
  std::string out = is_kernel ? ",\"args\":{\"queued\":0,\"device\":" : ",\"args\":{\"device\":";
  out += std::to_string(lane.device);
  if (lane.has_context) out += ",\"context\":" + std::to_string(lane.context);
  return out + ",\"stream\":" + std::to_string(lane.stream_index) + std::string(kCorrelationKey);
}

}  // namespace

ChromeRows::ChromeRows(const model::Cycle& cycle, RowText& text, int64_t base_unix_ns)
    : cycle_(cycle),
      text_(text),
      offset_ns_(cycle.session.base_unix_ns - base_unix_ns),
      next_flow_id_(FirstFreeFlowId(cycle)),
      names_(cycle.strings.size()),
      call_stacks_(cycle.stacks.size()),
      shapes_(cycle.shapes.size()),
      has_first_flow_(cycle.calls.size(), false) {
  for (auto& heads : call_heads_) heads.resize(cycle.strings.size());
  for (const model::Lane& lane : cycle.lanes) {
    lane_args_.push_back(LaneArgs(lane, false));
    lane_kernel_args_.push_back(LaneArgs(lane, true));
  }
}

const model::DeviceInfo* ChromeRows::Device(int32_t ordinal) const {
  for (const model::DeviceInfo& device : cycle_.devices) {
    if (device.ordinal == ordinal) return &device;
  }
  return nullptr;
}

const std::string& ChromeRows::Name(model::StringId id) {
  static const std::string kNone = "\"\"";
  if (id >= names_.size()) return kNone;
  if (names_[id].empty()) names_[id] = JsonString(cycle_.Text(id));
  return names_[id];
}

void ChromeRows::Next(size_t variable_bytes) {
  text_.Begin(variable_bytes);
  if (rows_++ > 0) text_.Literal(",\n");
}

void ChromeRows::PlaceAndTime(Place place, model::TimeNs begin, model::TimeNs end) {
  text_.Number(place.pid);
  text_.Literal(",\"tid\":");
  text_.Number(place.tid);
  text_.Literal(",\"ts\":");
  text_.Micros(begin + offset_ns_);
  text_.Literal(",\"dur\":");
  text_.Micros(end - begin);
  ++complete_rows_;
}

void ChromeRows::Head(const char* cat, const std::string& name, Place place, model::TimeNs begin,
                      model::TimeNs end) {
  Next(name.size());
  text_.Literal("{\"ph\":\"X\",\"cat\":\"");
  text_.Text(cat);
  text_.Literal("\",\"name\":");
  text_.Text(name);
  text_.Literal(",\"pid\":");
  PlaceAndTime(place, begin, end);
}

void ChromeRows::EndRow() { text_.Literal("}}"); }

void ChromeRows::StepArg(int32_t step, bool is_first) {
  if (step < 0 || static_cast<size_t>(step) >= cycle_.steps.size()) return;
  text_.Text(is_first ? "\"step\":" : ",\"step\":");
  text_.Number(cycle_.steps[static_cast<size_t>(step)].index);
}

void ChromeRows::TextArg(const char* key, const std::string& json_value, bool& is_first) {
  text_.Text(is_first ? "\"" : ",\"");
  text_.Text(key);
  text_.Literal("\":");
  text_.Text(json_value);
  is_first = false;
}

void ChromeRows::Metadata(const char* what, Place place, bool has_tid, const char* key,
                          const std::string& json_value) {
  Next(json_value.size());
  text_.Literal("{\"ph\":\"M\",\"name\":\"");
  text_.Text(what);
  text_.Literal("\",\"pid\":");
  text_.Number(place.pid);
  if (has_tid) {
    text_.Literal(",\"tid\":");
    text_.Number(place.tid);
  }
  text_.Literal(",\"args\":{\"");
  text_.Text(key);
  text_.Literal("\":");
  text_.Text(json_value);
  EndRow();
}

void ChromeRows::Step(const model::Step& step, std::string_view own_text, Place place) {
  const std::string own = own_text.empty() ? std::string() : JsonString(own_text);
  Head("user_annotation", "\"ProfilerStep#" + std::to_string(step.index) + "\"", place,
       step.begin_ns, std::max(step.begin_ns, step.end_ns));
  text_.Literal(",\"args\":{\"step\":");
  text_.Number(step.index);
  text_.Literal(",\"process_step\":");
  text_.Number(step.process_index);
  bool is_first = false;
  if (!own.empty()) {
    text_.Begin(own.size());
    TextArg("range", own, is_first);
  }
  if (!step.complete) TextArg("complete", "false", is_first);
  if (step.contains_tracer_start) TextArg("contains_tracer_start", "true", is_first);
  if (step.partial) TextArg("partial", "true", is_first);
  EndRow();
}

void ChromeRows::Range(const model::Range& range, Place place) {
  const std::string_view raw = cycle_.Text(range.name);
  // A second row of that name would be counted as a step by every reader.
  const bool looks_like_step = ProfilerStepNumber(raw).has_value();
  const std::string prefixed = looks_like_step ? JsonString("range " + std::string(raw)) : "";
  const std::string& name = looks_like_step ? prefixed : Name(range.name);
  const std::string& domain = Name(range.domain);
  Head("user_annotation", name, place, range.begin_ns, std::max(range.begin_ns, range.end_ns));
  text_.Begin(domain.size());
  text_.Literal(",\"args\":{");
  bool is_first = true;
  if (range.domain != 0) TextArg("domain", domain, is_first);
  if (range.category != 0) TextArg("category", std::to_string(range.category), is_first);
  if (range.color != 0) TextArg("color", std::to_string(range.color), is_first);
  if (range.is_start_end) TextArg("start_end", "true", is_first);
  if (range.cut_at_begin) TextArg("cut_at_begin", "true", is_first);
  if (range.cut_at_end) TextArg("cut_at_end", "true", is_first);
  EndRow();
}

void ChromeRows::Mark(const model::Mark& mark, Place place) {
  const std::string& name = Name(mark.name);
  const std::string& domain = Name(mark.domain);
  Next(name.size() + domain.size());
  text_.Literal("{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"user_annotation\",\"name\":");
  text_.Text(name);
  text_.Literal(",\"pid\":");
  text_.Number(place.pid);
  text_.Literal(",\"tid\":");
  text_.Number(place.tid);
  text_.Literal(",\"ts\":");
  text_.Micros(mark.at_ns + offset_ns_);
  text_.Literal(",\"args\":{");
  bool is_first = true;
  if (mark.domain != 0) TextArg("domain", domain, is_first);
  if (mark.category != 0) TextArg("category", std::to_string(mark.category), is_first);
  EndRow();
}

const std::string& ChromeRows::CallHead(const model::Call& call) {
  static const std::string kUnknown =
      "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"unknown\",\"pid\":";
  const bool is_runtime = call.domain != 1;
  std::vector<std::string>& heads = call_heads_[is_runtime ? 1 : 0];
  if (call.name >= heads.size()) return kUnknown;
  std::string& head = heads[call.name];
  if (head.empty()) {
    head = is_runtime ? "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":"
                      : "{\"ph\":\"X\",\"cat\":\"cuda_driver\",\"name\":";
    AppendJsonString(head, WithoutVersionSuffix(cycle_.Text(call.name)));
    head += ",\"pid\":";
  }
  return head;
}

// Kineto's own key for a stack, leaf first. Perfetto's page and chrome://tracing show every arg of
// a row, and HTA, TensorBoard and our own reader pass over those they do not know; the trace event
// format's `sf` with `stackFrames` would be shorter, but only chrome://tracing reads it.
const std::string& ChromeRows::CallStack(const model::Call& call) {
  static const std::string kNone;
  const std::vector<model::Frame>* stack = StackOf(cycle_, call);
  if (stack == nullptr || stack->empty()) return kNone;
  std::string& text = call_stacks_[static_cast<size_t>(call.stack)];
  if (text.empty()) text = JsonString(CallStackText(cycle_, *stack));
  return text;
}

void ChromeRows::Call(const model::Call& call, Place place) {
  const std::string& head = CallHead(call);
  const std::string& stack = CallStack(call);
  Next(head.size() + stack.size());
  text_.Text(head);
  PlaceAndTime(place, call.begin_ns, std::max(call.begin_ns, call.end_ns));
  text_.Literal(",\"args\":{");
  const bool has_number = FlowId(call) != 0 || !cycle_.is_from_trace;
  const bool has_cbid = call.cbid != 0 || !cycle_.is_from_trace;
  if (has_cbid) {
    text_.Literal("\"cbid\":");
    text_.Number(call.cbid);
    if (has_number) text_.Literal(",");
  }
  if (has_number) {
    text_.Literal("\"correlation\":");
    text_.Number(FlowId(call));
  }
  StepArg(call.step, !has_cbid && !has_number);
  if (call.return_value != 0) {
    text_.Literal(",\"return_value\":");
    text_.Number(call.return_value);
  }
  if (call.failed) text_.Literal(",\"failed\":true");
  if (call.captured) text_.Literal(",\"captured\":true");
  if (!stack.empty()) {
    text_.Literal(",\"Call stack\":");
    text_.Text(stack);
  }
  EndRow();
}

void ChromeRows::Overhead(const model::Overhead& overhead, Place place) {
  Head("overhead", JsonString(OverheadName(overhead.kind)), place, overhead.begin_ns,
       std::max(overhead.begin_ns, overhead.end_ns));
  text_.Literal(",\"args\":{");
  EndRow();
}

}  // namespace stepagent::writers
