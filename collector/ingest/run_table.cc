#include "collector/ingest/run_table.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "proto/visible_devices.h"

namespace stepagent::ingest {
namespace {

constexpr std::string_view kRankWord = "_rank";
constexpr int kFolderTries = 100;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The number a name carries after its last "_rank", or -1; *after: where the number ends.
int32_t ParseRank(const std::string& name, size_t* after) {
  const size_t at = name.rfind(kRankWord);
  if (at == std::string::npos) return -1;
  const size_t begin = at + kRankWord.size();
  size_t end = begin;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  *after = end;
  const bool is_number = end > begin && end - begin < 10 && end < name.size() && name[end] == '_';
  return is_number ? std::atoi(name.substr(begin, end - begin).c_str()) : -1;
}

// "_host" of "…_rank3_host_77_0a1b2c3d"; what a full disk's retry adds to the end does not matter.
std::string_view HostEnd(const std::string& name, size_t after) {
  const size_t id = name.rfind('_');
  const size_t pid = id == std::string::npos || id == 0 ? id : name.rfind('_', id - 1);
  if (pid == std::string::npos || pid < after) return {};
  return std::string_view(name).substr(after, pid - after);
}

// Numbers in the folders' names, but for those of sessions whose number this table knows better.
// `host`: of this one only; "" of all.
std::set<int32_t> TakenIn(const Run& run, const std::vector<std::string>& names,
                          const std::string& host) {
  std::set<int32_t> taken;
  for (const std::string& name : names) {
    const bool is_known = std::any_of(run.unranked.begin(), run.unranked.end(),
                                      [&](const auto& u) { return EndsWith(name, u.name_end); });
    size_t after = 0;
    const int32_t rank = ParseRank(name, &after);
    if (is_known || rank < 0) continue;
    if (host.empty() || HostEnd(name, after) == "_" + spool::SafeName(host)) taken.insert(rank);
  }
  return taken;
}

// Also none that is given for the time being.
int32_t LowestFree(const Run& run, const std::set<int32_t>& taken) {
  int32_t rank = 0;
  const auto is_given = [&] {
    return std::any_of(run.unranked.begin(), run.unranked.end(),
                       [&](const auto& u) { return u.rank == rank; });
  };
  while (taken.contains(rank) || is_given()) ++rank;
  return rank;
}

}  // namespace

bool HasRankTwin(const std::string& session_dir, const model::SessionInfo& session) {
  const size_t slash = session_dir.rfind('/');
  if (slash == std::string::npos) return false;
  for (const std::string& name : spool::RealFoldersIn(session_dir.substr(0, slash))) {
    size_t after = 0;
    const bool is_twin = name != session_dir.substr(slash + 1) &&
                         ParseRank(name, &after) == session.rank &&
                         HostEnd(name, after) == "_" + spool::SafeName(session.host);
    if (is_twin) return true;
  }
  return false;
}

int32_t RankInName(const std::string& folder_name) {
  size_t after = 0;
  return ParseRank(folder_name, &after);
}

std::string RunTable::Find(const std::string& out, const std::string& run_dir,
                           const std::string& run_id, int64_t now_unix_ns,
                           std::shared_ptr<Run>* run) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Run>& known = runs_[out + "\n" + run_dir + "\n" + run_id];
  if (known != nullptr && spool::IsRealFolder(known->path)) {
    *run = known;
    return {};
  }
  if (std::string error = spool::MakeOut(out); !error.empty()) return error;
  auto made = std::make_shared<Run>();
  made->name = spool::RunName(run_dir, run_id, now_unix_ns);
  made->path = out + "/" + made->name;
  // Another host's collector may have made it: the run is one.
  if (std::string error = spool::MakeFolder(made->path); !error.empty()) return error;
  if (std::string error = spool::MakeFolder(made->path + "/sessions"); !error.empty()) return error;
  known = made;
  *run = made;
  // Not worth failing for: `latest` is a convenience.
  static_cast<void>(spool::PointLatest(out, made->name));
  return {};
}

std::string RunTable::Enter(Run* run, model::SessionInfo* session, SessionFolder* folder) {
  const std::lock_guard lock(mutex_);
  const std::string sessions = run->path + "/sessions";
  const std::string name_end = "_" + spool::SafeName(session->host) + "_" +
                               std::to_string(session->pid) + "_" + spool::ShortId(session->id);
  const std::vector<std::string> names = spool::RealFoldersIn(sessions);
  const bool is_ranked = session->rank >= 0;
  if (!is_ranked) session->rank_source = "assigned";
  for (const std::string& name : names) {
    if (!EndsWith(name, name_end)) continue;
    folder->path = sessions + "/" + name;
    folder->is_resumed = true;
    if (!is_ranked) session->rank = std::max(RankInName(name), 0);
    for (Run::Unranked& u : run->unranked) {
      if (u.session == session->id) u.rank = session->rank, u.is_final = true;
    }
    return {};
  }
  if (is_ranked) {
    Claim(run, names, *session, folder);
  } else {
    Assign(run, name_end, names, session);
  }
  const std::string base = sessions + "/" + spool::SessionName(*session);
  std::string error;
  for (int i = 0; i < kFolderTries; ++i) {
    bool existed = false;
    folder->path = i == 0 ? base : base + "-" + std::to_string(i);
    error = spool::MakeNewFolder(folder->path, &existed);
    if (!existed) break;
  }
  return error;
}

// A number for the time being. The device it will use is a guess until its contexts are known.
void RunTable::Assign(Run* run, const std::string& name_end, const std::vector<std::string>& names,
                      model::SessionInfo* session) {
  const std::set<int32_t> taken = TakenIn(*run, names, "");
  session->rank = LowestFree(*run, taken);
  run->unranked.push_back(
      {.session = session->id,
       .name_end = name_end,
       .host = session->host,
       .pid = session->pid,
       .device = proto::PhysicalDevice(0, session->cuda_visible_devices.value_or("")),
       .rank = session->rank});
}

// What a launcher says wins over a number of ours that is still open; one that is settled stands in
// the names of files, so both are kept.
void RunTable::Claim(Run* run, const std::vector<std::string>& names,
                     const model::SessionInfo& session, SessionFolder* folder) {
  folder->has_duplicate_rank = TakenIn(*run, names, session.host).contains(session.rank);
  std::set<int32_t> taken = TakenIn(*run, names, "");
  taken.insert(session.rank);
  for (Run::Unranked& u : run->unranked) {
    if (u.rank != session.rank) continue;
    if (!u.is_final) {
      u.rank = LowestFree(*run, taken);
    } else if (u.host == session.host) {
      folder->has_duplicate_rank = true;
      folder->rank_holder = "pid " + std::to_string(u.pid);
    }
  }
}

void RunTable::SetDevice(Run* run, const std::string& session, int64_t device) {
  const std::lock_guard lock(mutex_);
  for (Run::Unranked& u : run->unranked) {
    if (u.session == session) u.device = device;
  }
}

int32_t RunTable::FinalRank(Run* run, const model::SessionInfo& session) {
  const std::lock_guard lock(mutex_);
  // Another host's collector may have taken in sessions of this run, too.
  const std::set<int32_t> taken = TakenIn(*run, spool::RealFoldersIn(run->path + "/sessions"), "");
  std::vector<Run::Unranked*> open;
  bool is_ours = false;
  for (Run::Unranked& u : run->unranked) {
    if (u.session == session.id && u.is_final) return u.rank;
    if (u.is_final) continue;
    if (taken.contains(u.rank)) u.rank = LowestFree(*run, taken);
    open.push_back(&u);
    is_ours |= u.session == session.id;
  }
  if (!is_ours) return session.rank;
  std::vector<int32_t> numbers;
  for (const Run::Unranked* u : open) numbers.push_back(u->rank);
  std::sort(numbers.begin(), numbers.end());
  std::sort(open.begin(), open.end(), [](const Run::Unranked* a, const Run::Unranked* b) {
    return a->device != b->device ? a->device < b->device : a->pid < b->pid;
  });
  // The others keep their places open: their devices may not be known yet.
  int32_t rank = session.rank;
  for (size_t i = 0; i < open.size(); ++i) {
    open[i]->rank = numbers[i];
    if (open[i]->session != session.id) continue;
    open[i]->is_final = true;
    rank = numbers[i];
  }
  return rank;
}

}  // namespace stepagent::ingest
