#include "collector/spool/session_json.h"

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

Json CyclesJson(const SessionState& state) {
  Json cycles = Json::array();
  for (const CycleEntry& c : state.cycles) {
    Json j;
    j["index"] = c.index;
    j["state"] = c.state;
    j["ended"] = Known(c.ended, !c.ended.empty());
    j["complete"] = c.complete;
    j["files"] = c.files;
    if (!c.error.empty()) j["error"] = Told(c.error, state.session);
    cycles.push_back(std::move(j));
  }
  return cycles;
}

}  // namespace

std::string SessionJsonText(const SessionState& state) {
  Json j;
  j["schema"] = "stepagent.session/1";
  j["state"] = state.is_open ? "open" : "closed";
  j["session"] = SessionJson(state.session);
  j["settings"] = state.session.settings;
  j["cycles"] = CyclesJson(state);
  j["raw"] = Json{{"name", std::string(kRawName)},
                  {"bytes", state.raw_bytes},
                  {"lost_frames", state.lost_frames},
                  {"refused_frames", state.refused_frames}};
  j["duplicate_rank"] = state.has_duplicate_rank;
  j["problems"] = Json::array();
  for (const std::string& line : state.problems) j["problems"].push_back(Told(line, state.session));
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string WriteSessionJson(const SessionState& state, const std::string& folder) {
  return ReplaceFile(folder + "/" + std::string(kSessionJsonName), SessionJsonText(state));
}

}  // namespace stepagent::spool
