#include "collector/spool/session_json.h"

#include <algorithm>
#include <string_view>

#include "nlohmann/json.hpp"

#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "proto/redaction.h"

namespace stepagent::spool {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json Known(T value, bool is_known) {
  return is_known ? Json(value) : Json(nullptr);
}

Json SessionJson(const model::SessionInfo& s) {
  Json j;
  j["id"] = s.id;
  j["run"] = s.run;
  j["host"] = s.host;
  j["pid"] = s.pid;
  j["exe"] = s.exe;
  j["exe_path"] = s.exe_path;
  j["title"] = s.title;
  j["argv"] = s.argv;
  j["rank"] = s.rank;
  j["rank_source"] = s.rank_source;
  j["world_size"] = Known(s.world_size, s.world_size >= 0);
  j["local_rank"] = Known(s.local_rank, s.local_rank >= 0);
  j["cuda_visible_devices"] =
      Known(s.cuda_visible_devices.value_or(""), s.cuda_visible_devices.has_value());
  j["start_unix_ns"] = s.base_unix_ns;
  j["agent_version"] = s.agent_version;
  j["labels"] = s.labels;
  return j;
}

// Problems are ours and name files by their whole path.
Json Told(const std::string& line, const model::SessionInfo& session) {
  const bool keeps_paths = (proto::RedactBits(session.redact) & proto::kRedactPaths) == 0;
  return keeps_paths ? line : proto::WithoutPaths(line, "(path left out)");
}

// A line of its own, and no document of all of them: a session may have a hundred thousand cycles.
std::string CycleLine(const CycleEntry& c, const model::SessionInfo& session) {
  Json j;
  j["index"] = c.index;
  j["state"] = c.state;
  j["ended"] = Known(c.ended, !c.ended.empty());
  j["complete"] = c.complete;
  j["files"] = Json::array();
  for (std::string_view rest = c.files; !rest.empty();) {
    const std::string_view file = rest.substr(0, rest.find('\n'));
    j["files"].push_back(file);
    rest.remove_prefix(std::min(file.size() + 1, rest.size()));
  }
  if (!c.error.empty()) j["error"] = Told(c.error, session);
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Dump(const Json& j) { return j.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

void CycleEntry::SetFiles(const std::vector<std::string>& names) {
  files.clear();
  for (const std::string& name : names) files += (files.empty() ? "" : "\n") + name;
  files.shrink_to_fit();
}

std::string WriteSessionJson(const SessionState& state, const std::string& folder) {
  Json head, tail;
  head["schema"] = "stepagent.session/1";
  head["state"] = state.is_open ? "open" : "closed";
  head["session"] = SessionJson(state.session);
  head["settings"] = state.session.settings;
  tail["raw"] = Json{{"name", std::string(kRawName)},
                     {"bytes", state.raw_bytes},
                     {"lost_frames", state.lost_frames},
                     {"refused_frames", state.refused_frames}};
  tail["duplicate_rank"] = state.has_duplicate_rank;
  tail["rank_holder"] = Known(state.rank_holder, !state.rank_holder.empty());
  tail["rank_conflicts"] = state.rank_conflicts;
  tail["problems"] = Json::array();
  for (const std::string& line : state.problems)
    tail["problems"].push_back(Told(line, state.session));
  FileReplacement file(folder + "/" + std::string(kSessionJsonName));
  const std::string text = Dump(head);
  file.Append(std::string_view(text).substr(0, text.size() - 2));  // without its "\n}"
  file.Append(",\n  \"cycles\": [");
  std::string_view separator = "\n    ";
  for (const CycleEntry& cycle : state.cycles) {
    file.Append(separator);
    file.Append(CycleLine(cycle, state.session));
    separator = ",\n    ";
  }
  file.Append(state.cycles.empty() ? "]," : "\n  ],");
  file.Append(std::string_view(Dump(tail)).substr(1));  // without its "{"
  file.Append("\n");
  return file.Commit();
}

}  // namespace stepagent::spool
