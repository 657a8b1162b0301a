#include "collector/writers/json_parts.h"

#include "collector/writers/json_text.h"

namespace stepagent::writers {

OrderedJson TextOrNull(std::string_view bytes) {
  return bytes.empty() ? OrderedJson(nullptr) : OrderedJson(ValidUtf8(bytes));
}
OrderedJson CountOrNull(const std::optional<uint64_t>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}
OrderedJson IdOrNull(int32_t id) { return id < 0 ? OrderedJson(nullptr) : OrderedJson(id); }
OrderedJson VersionOrNull(uint32_t version) {
  return version == 0 ? OrderedJson(nullptr) : OrderedJson(version);
}

OrderedJson SessionHead(const model::SessionInfo& s) {
  return {{"id", TextOrNull(s.id)},
          {"run", TextOrNull(s.run)},
          {"host", TextOrNull(s.host)},
          {"pid", s.pid == 0 ? OrderedJson(nullptr) : OrderedJson(s.pid)},
          {"exe", ValidUtf8(s.exe)},
          {"title", ValidUtf8(s.title)},
          {"rank", IdOrNull(s.rank)},
          {"rank_source", TextOrNull(s.rank_source)},
          {"world_size", IdOrNull(s.world_size)}};
}

OrderedJson StepFlag(const model::Cycle& cycle, bool flag) {
  return cycle.tells_step_flags ? OrderedJson(flag) : OrderedJson(nullptr);
}

OrderedJson LabelsJson(const model::SessionInfo& session) {
  OrderedJson labels = OrderedJson::object();
  for (const auto& [key, value] : session.labels) labels[ValidUtf8(key)] = ValidUtf8(value);
  return labels;
}

OrderedJson VisibleDevicesJson(const model::SessionInfo& session) {
  return session.cuda_visible_devices ? OrderedJson(ValidUtf8(*session.cuda_visible_devices))
                                      : OrderedJson(nullptr);
}

OrderedJson CycleHead(const model::Cycle& cycle) {
  OrderedJson head = {{"index", cycle.index},
                      {"complete", cycle.tells_end ? OrderedJson(cycle.complete) : nullptr},
                      {"ended", cycle.tells_end ? OrderedJson(cycle.ended) : nullptr},
                      {"reason", TextOrNull(cycle.reason)}};
  if (cycle.part) head["part"] = {{"number", cycle.part->number}, {"of", cycle.part->of}};
  if (cycle.killed_by_signal) head["signal"] = *cycle.killed_by_signal;
  if (cycle.exit_status) head["exit_status"] = *cycle.exit_status;
  return head;
}

OrderedJson NotesJson(const model::Cycle& cycle) {
  OrderedJson out = OrderedJson::array();
  for (const model::Note& note : cycle.notes) {
    out.push_back({{"code", ValidUtf8(note.code)}, {"text", ValidUtf8(note.text)}});
  }
  return out;
}

}  // namespace stepagent::writers
