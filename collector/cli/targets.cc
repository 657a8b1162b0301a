#include "collector/cli/targets.h"

#include <fnmatch.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <tuple>

#include "collector/launch/process_tree.h"
#include "collector/launch/session_files.h"

namespace stepagent::cli {
namespace {

using launch::Answer;

bool IsRunning(int64_t pid) {
  return pid > 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

// The user a process is of; nullopt: there is none, or it is ours to ask.
std::optional<uid_t> ForeignUser(int64_t pid) {
  struct stat about {};
  const bool is_there = stat(("/proc/" + std::to_string(pid)).c_str(), &about) == 0;
  if (!is_there || geteuid() == 0 || about.st_uid == geteuid()) return std::nullopt;
  return about.st_uid;
}

// Why none of the given pids has an agent that answers.
std::string MissingPid(int64_t pid) {
  const std::string number = std::to_string(pid);
  if (const auto user = ForeignUser(pid))
    return "process " + number + " is user " + std::to_string(*user) +
           "'s: only that user and root may ask it, and this is user " + std::to_string(geteuid());
  return IsRunning(pid)
             ? "process " + number +
                   " runs, but no agent answers there: it was started without stepagent, "
                   "or has used neither CUDA nor NVTX yet"
             : "there is no process " + number;
}

std::string NothingMatches(const TargetRules& rules, size_t present) {
  if (present == 0) return "no process with stepagent answers";
  std::string what = !rules.name.empty()      ? "--name '" + rules.name + "'"
                     : !rules.session.empty() ? "--session '" + rules.session + "'"
                     : rules.gpu >= 0         ? "--gpu " + std::to_string(rules.gpu)
                                              : "--rank";
  return what + " matches none of the " + std::to_string(present) + " processes that answer";
}

// Ranks that were named and are not among the matched; those that do not answer may be them.
std::string MissingRanks(const TargetRules& rules, const std::vector<Answer>& matched,
                         const std::vector<int64_t>& silent, const std::string& unranked) {
  std::string missing, pids;
  for (const uint32_t rank : rules.ranks) {
    const bool is_there = std::any_of(matched.begin(), matched.end(), [&](const Answer& a) {
      return RankOf(a) == static_cast<int64_t>(rank);
    });
    if (!is_there) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  for (const int64_t pid : silent) pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
  const std::string who = pids.empty() ? "" : "; no answer, and so not told apart: pid " + pids;
  if (!missing.empty()) return "no process that answers is rank " + missing + who + unranked;
  const bool is_by_state = rules.gpu >= 0 || !rules.name.empty();
  return is_by_state && !pids.empty() ? who.substr(2) : "";
}

// Those of which it is not known whether they are meant.
std::vector<int64_t> SilentOf(const TargetRules& rules, const std::vector<Answer>& answers) {
  std::vector<int64_t> silent;
  const bool is_by_rank = rules.gpu < 0 && rules.name.empty();
  for (const Answer& answer : answers)
    if (!answer.message && !(is_by_rank && RankOf(answer) >= 0))
      silent.push_back(answer.agent.pid);
  return silent;
}

// "" unless processes answer that have no rank: they get theirs when they record first.
std::string UnrankedText(const std::vector<Answer>& answers) {
  const auto count = std::count_if(answers.begin(), answers.end(), [](const Answer& answer) {
    return answer.message && RankOf(answer) < 0;
  });
  if (count == 0) return "";
  return "; " + std::to_string(count) +
         (count == 1 ? " process that answers has" : " processes that answer have") +
         " no rank yet (no launcher gave one; it is assigned with the first recording): give a "
         "PID, --gpu, --name or --all";
}

// <exe>_rank<R>_<host>_<pid>_<8 hex>, which another container's mounts do not keep from us.
int64_t RankInName(const std::string& session_dir) {
  const std::string name = session_dir.substr(session_dir.rfind('/') + 1);
  const size_t at = name.rfind("_rank");
  if (at == std::string::npos) return -1;
  const char* digits = name.c_str() + at + 5;
  char* end = nullptr;
  const long long rank = std::strtoll(digits, &end, 10);
  return end != digits && *end == '_' && rank >= 0 ? rank : -1;
}

}  // namespace

bool Matches(const TargetRules& rules, const Answer& answer) {
  const auto& pids = rules.pids;
  if (!pids.empty() && std::find(pids.begin(), pids.end(), answer.agent.pid) == pids.end())
    return false;
  if (!rules.session.empty() && !answer.agent.session.starts_with(rules.session)) return false;
  if (rules.ranks.empty() && rules.gpu < 0 && rules.name.empty()) return true;
  const auto& ranks = rules.ranks;
  const int64_t rank = ranks.empty() ? -1 : RankOf(answer);
  const bool is_rank_meant =
      ranks.empty() || (rank >= 0 && std::find(ranks.begin(), ranks.end(),
                                               static_cast<uint32_t>(rank)) != ranks.end());
  if (!is_rank_meant) return false;
  // One that hangs cannot say what else it is.
  if (!answer.message) return rules.gpu < 0 && rules.name.empty();
  const v1::AgentStatus& status = answer.message->status();
  if (rules.gpu >= 0 && std::find(status.gpus().begin(), status.gpus().end(),
                                  static_cast<uint32_t>(rules.gpu)) == status.gpus().end())
    return false;
  return rules.name.empty() || fnmatch(rules.name.c_str(), status.title().c_str(), 0) == 0;
}

std::string WhyNoGpuMatches(const TargetRules& rules, const std::vector<Answer>& answers) {
  if (rules.gpu < 0) return {};
  bool has_gpu = false, has_cuda = false;
  for (const Answer& answer : answers) {
    if (!answer.message) continue;
    has_gpu |= answer.message->status().gpus_size() > 0;
    has_cuda |= answer.message->status().has_cuda();
  }
  if (has_gpu) return {};
  const std::string why = has_cuda ? "they have CUDA up but no context that is known yet (one that "
                                     "is not primary is told by its first window)"
                                   : "CUDA is up in none of them";
  return "--gpu " + std::to_string(rules.gpu) + ": none of the " + std::to_string(answers.size()) +
         " processes that answer has told its GPU: " + why + "; give a PID, --rank or --name";
}

void SortTargets(std::vector<Answer>* answers) {
  const auto key = [](const Answer& a) {
    const v1::AgentStatus status = a.message ? a.message->status() : v1::AgentStatus();
    return std::tuple(!a.message, !status.has_cuda(), RankOf(a), a.agent.pid);
  };
  std::stable_sort(answers->begin(), answers->end(),
                   [&](const Answer& a, const Answer& b) { return key(a) < key(b); });
}

Targets FindTargets(const TargetRules& rules, bool bare_means_all, const proto::RuntimeDirs& dirs,
                    std::chrono::milliseconds timeout) {
  Targets targets;
  std::vector<Answer> answers = launch::AskAll(
      proto::ListAgents(dirs, geteuid()), launch::MakeRequest(v1::ControlRequest::STATUS), timeout);
  // Sockets of processes that are gone stay in a folder until it is cleaned.
  std::erase_if(answers, [](const Answer& a) { return a.is_gone; });
  DescribeSilent({}, &answers);
  const size_t present = answers.size();
  for (const int64_t pid : rules.pids)
    if (std::none_of(answers.begin(), answers.end(),
                     [&](const Answer& a) { return a.agent.pid == pid; }))
      targets.error = MissingPid(pid);
  const std::string no_gpu = WhyNoGpuMatches(rules, answers);
  const std::vector<int64_t> silent = SilentOf(rules, answers);
  const std::string unranked = rules.ranks.empty() ? "" : UnrankedText(answers);
  std::erase_if(answers, [&](const Answer& a) { return !Matches(rules, a); });
  SortTargets(&answers);
  if (rules.IsBare() && !bare_means_all && answers.size() > 1) {
    targets.error = std::to_string(answers.size()) +
                    " processes answer: give a PID, --rank, --gpu, --name, --session or --all";
    for (const Answer& answer : answers) targets.error += "\n  " + StatusLine(answer);
    return targets;
  }
  if (answers.empty() && targets.error.empty()) {
    targets.error = present == 0 || no_gpu.empty() ? NothingMatches(rules, present) + unranked : no_gpu;
  }
  if (targets.error.empty()) targets.error = MissingRanks(rules, answers, silent, unranked);
  targets.matched = std::move(answers);
  return targets;
}

int64_t RankOf(const Answer& answer) {
  if (!answer.message) return answer.rank;
  const v1::AgentStatus& status = answer.message->status();
  if (status.rank() >= 0 || status.session_dir().empty()) return status.rank();
  const auto session = launch::ReadSession(status.session_dir());
  if (session && session->id == status.session()) return session->rank;
  return RankInName(status.session_dir());
}

void DescribeSilent(const std::vector<Answer>& before, std::vector<Answer>* answers) {
  for (size_t i = 0; i < answers->size(); ++i) {
    Answer& answer = (*answers)[i];
    if (answer.message) continue;
    if (i < before.size() && before[i].message) {
      answer.rank = RankOf(before[i]);
      answer.title = before[i].message->status().title();
      continue;
    }
    // Of another container's process the number is somebody else's here, without our library.
    const launch::TreeProcess process = launch::LookAtProcess(answer.agent.pid);
    if (process.stepagent.empty()) continue;
    answer.rank = process.told_rank;
    answer.title = process.title;
  }
}

std::string StatusLine(const Answer& answer) {
  std::string line = std::to_string(answer.agent.pid);
  const int64_t rank = RankOf(answer);
  const std::string rank_text = "  rank " + (rank < 0 ? std::string("-") : std::to_string(rank));
  if (!answer.message)
    return line + (answer.title.empty() ? "" : "  " + answer.title) + rank_text + "  no state: " +
           answer.error;
  const v1::AgentStatus& s = answer.message->status();
  line += "  " + (s.title().empty() ? s.exe() : s.title()) + rank_text;
  line += std::string("  ") + launch::PhaseText(answer.is_gone ? v1::PHASE_DONE : s.phase());
  line += "  step " + std::to_string(s.step()) + "  cycle " + std::to_string(s.cycle());
  line += "  records " + std::to_string(s.records());
  line += "  error " + (s.last_error().empty() ? std::string("-") : s.last_error());
  if (answer.is_gone) line += "  the process has ended";
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 32 || c == 127; }, ' ');
  return line;
}

const char* VerdictText(const Answer& answer) {
  if (!answer.message) return "no answer";
  switch (answer.message->verdict()) {
    case v1::ControlAnswer::OK:
      return "ok";
    case v1::ControlAnswer::BUSY:
      return "busy";
    default:
      return "refused";
  }
}

std::string VerdictLine(const Answer& answer) {
  const std::string& reason = answer.message ? answer.message->reason() : answer.error;
  return VerdictText(answer) + (reason.empty() ? "" : ": " + reason);
}

}  // namespace stepagent::cli
