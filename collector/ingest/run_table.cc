#include "collector/ingest/run_table.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "collector/spool/folders.h"
#include "collector/spool/names.h"

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

}  // namespace

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
  const std::string tail = "_" + spool::SafeName(session->host) + "_" +
                           std::to_string(session->pid) + "_" + spool::ShortId(session->id);
  const std::vector<std::string> names = spool::RealFoldersIn(sessions);
  const bool is_ranked = session->rank >= 0;
  if (!is_ranked) session->rank_source = "assigned";
  for (const std::string& name : names) {
    if (!EndsWith(name, tail)) continue;
    folder->path = sessions + "/" + name;
    folder->is_resumed = true;
    if (!is_ranked) session->rank = std::max(RankInName(name), 0);
    return {};
  }
  std::set<int32_t> taken;
  for (const std::string& name : names) {
    size_t after = 0;
    const int32_t rank = ParseRank(name, &after);
    const bool is_same_host = name.compare(after, 1 + spool::SafeName(session->host).size(),
                                           "_" + spool::SafeName(session->host)) == 0;
    if (rank >= 0 && is_same_host) taken.insert(rank);
  }
  // A number is taken from when it is given, not from when its folder is renamed to it.
  for (const Run::Unranked& u : run->unranked) taken.insert(u.rank);
  if (!is_ranked) {
    session->rank = 0;
    while (taken.contains(session->rank)) ++session->rank;
    run->unranked.push_back(
        {.session = session->id, .pid = session->pid, .device = 0, .rank = session->rank});
  }
  folder->has_duplicate_rank = is_ranked && taken.contains(session->rank);
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

void RunTable::SetDevice(Run* run, const std::string& session, int64_t device) {
  const std::lock_guard lock(mutex_);
  for (Run::Unranked& u : run->unranked) {
    if (u.session == session) u.device = device;
  }
}

int32_t RunTable::FinalRank(Run* run, const model::SessionInfo& session) {
  const std::lock_guard lock(mutex_);
  std::vector<Run::Unranked*> open;
  std::vector<int32_t> numbers;
  for (Run::Unranked& u : run->unranked) {
    if (u.session == session.id && u.is_final) return u.rank;
    if (!u.is_final) open.push_back(&u), numbers.push_back(u.rank);
  }
  const bool is_ours = std::any_of(
      open.begin(), open.end(), [&](const Run::Unranked* u) { return u->session == session.id; });
  if (!is_ours) return session.rank;
  std::sort(numbers.begin(), numbers.end());
  std::sort(open.begin(), open.end(), [](const Run::Unranked* a, const Run::Unranked* b) {
    return a->device != b->device ? a->device < b->device : a->pid < b->pid;
  });
  int32_t rank = session.rank;
  for (size_t i = 0; i < open.size(); ++i) {
    open[i]->rank = numbers[i];
    open[i]->is_final = true;
    if (open[i]->session == session.id) rank = open[i]->rank;
  }
  return rank;
}

}  // namespace stepagent::ingest
