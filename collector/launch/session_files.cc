#include "collector/launch/session_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "collector/spool/recover.h"
#include "nlohmann/json.hpp"
#include "proto/redaction.h"

namespace stepagent::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

int64_t Number(const json& object, const char* key, int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

CycleEntry ReadCycle(const json& object, const std::string& run_folder) {
  CycleEntry cycle;
  cycle.index = static_cast<uint64_t>(Number(object, "index", 0));
  cycle.state = TextMember(object, "state");
  cycle.ended = TextMember(object, "ended");
  cycle.error = TextMember(object, "error");
  for (const json& file : Member(object, "files")) {
    const std::string name = file.is_string()   ? file.get<std::string>()
                             : file.is_object() ? TextMember(file, "name")
                                                : "";
    if (name.empty()) continue;
    cycle.files.push_back(name[0] == '/' ? name : run_folder + "/" + name);
  }
  return cycle;
}

void AddSessionsOf(const fs::path& run, std::vector<std::string>* folders) {
  std::error_code error;
  for (const auto& item : fs::directory_iterator(run / "sessions", error))
    if (item.is_directory(error)) folders->push_back(item.path().string());
}

}  // namespace

std::string TextMember(const json& object, const char* key) {
  const json& member = Member(object, key);
  return member.is_string() ? member.get<std::string>() : "";
}

const json& Member(const json& object, const char* key) {
  static const json* const kNothing = new json(json::object());
  if (!object.is_object()) return *kNothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : *kNothing;
}

bool CycleEntry::IsWritten() const { return state == "written" || state == "failed"; }

bool SessionEntry::IsSettled() const {
  if (state == "closed") return true;
  return !cycles.empty() && std::all_of(cycles.begin(), cycles.end(), [](const CycleEntry& c) {
    return c.IsWritten() || c.IsDeferred();
  });
}

std::vector<uint64_t> SessionEntry::DeferredCycles() const {
  std::vector<uint64_t> deferred;
  for (const CycleEntry& cycle : cycles)
    if (cycle.IsDeferred()) deferred.push_back(cycle.index);
  return deferred;
}

// A collector that writes a session holds a lock on its raw file.
bool SessionEntry::IsHeld() const {
  const int fd = open((folder + "/raw.steps").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return is_held;
}

bool SessionEntry::IsAlive() const {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const bool is_elsewhere = !host.empty() && host != name && !proto::IsRedactedHost(host);
  if (pid <= 0 || is_elsewhere) return false;
  const bool is_there = kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  // The number may be another process's by now, or in our process namespace (PID 1 of a container).
  return is_there && spool::ProcessLives(folder).value_or(true);
}

json ReadJson(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return json::object();
  json document = json::parse(file, nullptr, false);
  return document.is_object() ? document : json::object();
}

std::optional<SessionEntry> ReadSession(const std::string& folder) {
  const json document = ReadJson(folder + "/session.json");
  const json& about = Member(document, "session");
  if (!about.is_object() || about.empty()) return std::nullopt;
  SessionEntry session;
  session.folder = folder;
  session.run_folder = fs::path(folder).parent_path().parent_path().string();
  session.id = TextMember(about, "id");
  session.exe = TextMember(about, "exe");
  session.title = TextMember(about, "title");
  session.host = TextMember(about, "host");
  session.pid = Number(about, "pid", 0);
  session.rank = Number(about, "rank", -1);
  session.world_size = Number(about, "world_size", -1);
  const json& settings = Member(document, "settings");
  session.ranks = TextMember(settings, "ranks");
  if (TextMember(settings, "activities") != "none")  // then there is no trace to be written
    session.formats = TextMember(settings, "formats");
  session.state = TextMember(document, "state");
  for (const json& cycle : Member(document, "cycles"))
    if (cycle.is_object()) session.cycles.push_back(ReadCycle(cycle, session.run_folder));
  return session;
}

std::vector<std::string> FindSessionFolders(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  std::vector<std::string> folders;
  if (error) return folders;
  if (fs::exists(absolute / "session.json", error)) return {absolute.string()};
  AddSessionsOf(absolute, &folders);
  for (const auto& item : fs::directory_iterator(absolute, error))
    if (!item.is_symlink(error) && item.is_directory(error)) AddSessionsOf(item.path(), &folders);
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string CycleFolder(const SessionEntry& session, uint64_t cycle) {
  char name[32];
  std::snprintf(name, sizeof name, "/cycle-%04llu", static_cast<unsigned long long>(cycle));
  return session.folder + name;
}

std::string FirstReadingOf(const std::string& cycle_folder) {
  const json summary = ReadJson(cycle_folder + "/summary.json");
  for (const json& reading : Member(summary, "readings"))
    if (reading.is_object()) return TextMember(reading, "observation");
  return "";
}

}  // namespace stepagent::launch
