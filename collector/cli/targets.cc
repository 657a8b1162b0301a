#include "collector/cli/targets.h"

#include <fnmatch.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

namespace stepagent::cli {
namespace {

using launch::Answer;

bool IsRunning(int64_t pid) {
  return pid > 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

// Why none of the given pids has an agent that answers.
std::string MissingPid(int64_t pid) {
  const std::string number = std::to_string(pid);
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
                         const std::vector<int64_t>& silent) {
  std::string missing, pids;
  for (const uint32_t rank : rules.ranks) {
    const bool is_there = std::any_of(matched.begin(), matched.end(), [&](const Answer& a) {
      return a.message && a.message->status().rank() == static_cast<int64_t>(rank);
    });
    if (!is_there) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  for (const int64_t pid : silent) pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
  const std::string who = pids.empty() ? "" : "; no answer, and so not told apart: pid " + pids;
  if (!missing.empty()) return "no process that answers is rank " + missing + who;
  const bool is_by_state = rules.gpu >= 0 || !rules.name.empty();
  return is_by_state && !pids.empty() ? who.substr(2) : "";
}

std::vector<int64_t> SilentOf(const std::vector<Answer>& answers) {
  std::vector<int64_t> silent;
  for (const Answer& answer : answers)
    if (!answer.message) silent.push_back(answer.agent.pid);
  return silent;
}

}  // namespace

bool Matches(const TargetRules& rules, const Answer& answer) {
  const auto& pids = rules.pids;
  if (!pids.empty() && std::find(pids.begin(), pids.end(), answer.agent.pid) == pids.end())
    return false;
  if (!rules.session.empty() && !answer.agent.session.starts_with(rules.session)) return false;
  if (rules.ranks.empty() && rules.gpu < 0 && rules.name.empty()) return true;
  if (!answer.message) return false;  // one that hangs cannot say what it is
  const v1::AgentStatus& status = answer.message->status();
  const auto& ranks = rules.ranks;
  if (!ranks.empty() &&
      (status.rank() < 0 ||
       std::find(ranks.begin(), ranks.end(), static_cast<uint32_t>(status.rank())) == ranks.end()))
    return false;
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
    return std::tuple(!a.message, !status.has_cuda(), status.rank(), a.agent.pid);
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
  const size_t present = answers.size();
  for (const int64_t pid : rules.pids)
    if (std::none_of(answers.begin(), answers.end(),
                     [&](const Answer& a) { return a.agent.pid == pid; }))
      targets.error = MissingPid(pid);
  const std::string no_gpu = WhyNoGpuMatches(rules, answers);
  const std::vector<int64_t> silent = SilentOf(answers);
  std::erase_if(answers, [&](const Answer& a) { return !Matches(rules, a); });
  SortTargets(&answers);
  if (rules.IsBare() && !bare_means_all && answers.size() > 1) {
    targets.error = std::to_string(answers.size()) +
                    " processes answer: give a PID, --rank, --gpu, --name, --session or --all";
    for (const Answer& answer : answers) targets.error += "\n  " + StatusLine(answer);
    return targets;
  }
  if (answers.empty() && targets.error.empty()) {
    targets.error = present == 0 || no_gpu.empty() ? NothingMatches(rules, present) : no_gpu;
  }
  if (targets.error.empty()) targets.error = MissingRanks(rules, answers, silent);
  targets.matched = std::move(answers);
  return targets;
}

std::string StatusLine(const Answer& answer) {
  std::string line = std::to_string(answer.agent.pid);
  if (!answer.message) return line + "  no state: " + answer.error;
  const v1::AgentStatus& s = answer.message->status();
  line += "  " + (s.title().empty() ? s.exe() : s.title());
  line += "  rank " + (s.rank() < 0 ? std::string("-") : std::to_string(s.rank()));
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
