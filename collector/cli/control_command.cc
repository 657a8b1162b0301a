#include "collector/cli/control_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "CLI/CLI.hpp"
#include "collector/cli/arguments.h"
#include "collector/cli/common_step.h"
#include "collector/cli/start_outcome.h"
#include "collector/cli/start_turn.h"
#include "collector/cli/start_wait.h"
#include "collector/cli/targets.h"
#include "collector/launch/setting_args.h"
#include "nlohmann/json.hpp"
#include "proto/settings.h"

namespace stepagent::cli {
namespace {

using launch::Answer;
using nlohmann::ordered_json;
// Where no --timeout is given: how long the others may take to the common step after the first.
constexpr auto kLaggardTime = std::chrono::seconds(60);
// Another start sends its requests within a few tries of a second or two each.
constexpr auto kLongestTurn = std::chrono::seconds(20);

struct Command {
  std::string verb;
  TargetRules targets;
  v1::ControlRequest request;
  bool as_json = false;
  bool waits = false;
  std::optional<uint64_t> at_step;     // --at-step
  uint64_t warmup = 1;                 // of the schedule that is asked for
  std::optional<uint64_t> timeout_ns;  // --timeout, of the whole command
};

// Decided once, when a process starts: a later `start` cannot change them.
bool IsFixedAtStart(const std::string& name) {
  return name == "arm" || name == "signal" || name == "collector" || name == "log" ||
         name == "ranks";
}

std::optional<int> TakeCaptureOptions(const launch::SettingArgs& taken, Command* command) {
  proto::Settings settings = proto::DefaultSettings();
  for (const auto& [name, value] : taken.settings) {
    const bool is_start = command->verb == "start";
    if (!is_start || IsFixedAtStart(name)) {
      std::string why = "not an option of " + command->verb;
      if (is_start) why += ": it is decided when the process starts";
      return FailUsage(proto::SettingError{"--" + name, value, why, ""}.Line());
    }
    if (const auto error = proto::ApplySetting("--" + name, value, &settings))
      return FailUsage(error->Line());
  }
  settings.out = launch::AbsolutePath(settings.out);
  if (settings.schedule) command->warmup = settings.schedule->warmup;
  const auto texts = proto::SettingsText(settings);
  for (const auto& [name, given] : settings.given)
    (*command->request.mutable_settings())[name] = texts.at(name);
  return std::nullopt;
}

std::optional<int> TakeLength(const std::string& steps, const std::string& duration, bool no_wait,
                              const launch::SettingArgs& taken, Command* command) {
  bool has_schedule = false;
  for (const auto& setting : taken.settings) has_schedule |= setting.first == "schedule";
  if (!steps.empty() && !duration.empty())
    return FailUsage("start: --steps and --for exclude each other");
  if (has_schedule && (!steps.empty() || !duration.empty()))
    return FailUsage("start: --schedule excludes --steps and --for");
  if (!steps.empty()) {
    const auto count = proto::ParseCount(steps);
    if (!count || *count == 0 || *count > proto::kMaxPhaseSteps)
      return FailUsage(proto::SettingError{"--steps", steps, "", "a whole number above 0"}.Line());
    command->request.set_steps(*count);
  }
  if (!duration.empty()) {
    const auto ns = proto::ParseDuration(duration);
    if (!ns || *ns == 0)
      return FailUsage(
          proto::SettingError{"--for", duration, "", "a duration above 0 (5s, 200ms)"}.Line());
    command->request.set_duration_ns(*ns);
  }
  command->waits = !no_wait && (!steps.empty() || !duration.empty());
  return std::nullopt;
}

std::optional<int> TakeCommonStep(const std::string& at_step, const std::string& timeout,
                                  Command* command) {
  if (!at_step.empty()) {
    command->at_step = proto::ParseCount(at_step);
    if (!command->at_step || *command->at_step > proto::kMaxPhaseSteps)
      return FailUsage(proto::SettingError{"--at-step", at_step, "", "a step's number"}.Line());
    if (command->request.duration_ns() != 0)
      return FailUsage("start: --at-step and --for exclude each other");
  }
  if (!timeout.empty()) {
    const auto ns = proto::ParseDuration(timeout);
    if (!ns) return FailUsage(proto::SettingError{"--timeout", timeout, "", "a duration"}.Line());
    command->timeout_ns = *ns;
  }
  return std::nullopt;
}

std::optional<int> TakeRanks(const std::string& list, TargetRules* rules) {
  proto::Settings settings = proto::DefaultSettings();
  if (const auto error = proto::ApplySetting("--ranks", list, &settings))
    return FailUsage(
        proto::SettingError{"--rank", list, error->why, "a list of ranks (0,3,8-15)"}.Line());
  if (settings.ranks)
    rules->ranks = *settings.ranks;
  else
    rules->all = true;
  return std::nullopt;
}

// An option that a script gave with a variable of nothing must not count as left out.
std::string EmptyOption(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end()) return option->get_name();
  }
  return "";
}

// nullopt: go on with *command; else the status to exit with.
std::optional<int> ParseCommand(const std::vector<std::string>& args, Command* command) {
  const launch::SettingArgs taken = launch::TakeSettings(args, false);
  if (!taken.error.empty()) return FailUsage(taken.error);
  CLI::App app("Steers processes that run with stepagent.", "stepagent " + command->verb);
  std::string ranks, steps, duration, at_step, timeout;
  bool no_wait = false;
  TargetRules& rules = command->targets;
  app.add_option("pid", rules.pids, "Process ids");
  app.add_flag("--all", rules.all, "Every process that answers");
  app.add_option("--rank", ranks, "Ranks (0,3)");
  app.add_option("--gpu", rules.gpu, "A device's number, as the machine counts")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--name", rules.name, "Pattern of the process title (*, ?)");
  app.add_option("--session", rules.session, "A session's id");
  app.add_flag("--json", command->as_json, "As JSON");
  if (command->verb == "start") {
    app.add_option("--steps", steps, "Record this many steps, after one of warmup");
    app.add_option("--for,--duration", duration, "Record for this long");
    app.add_flag("--no-wait", no_wait, "Return at once");
    app.add_option("--at-step", at_step,
                   "The first step to record, counted from the process's start (0). Several "
                   "processes with one step source get a common one without it, too");
    app.add_option("--timeout", timeout,
                   "The longest the whole command may take. Without it, processes may take 60s to "
                   "reach that step after the first");
    app.footer("Capture options:\n" + launch::SettingsHelp(IsFixedAtStart));
  }
  if (const auto status = ParseArguments(&app, taken.rest)) return status;
  if (!taken.command.empty()) return FailUsage(command->verb + ": unexpected '--'");
  if (const std::string name = EmptyOption(app); !name.empty())
    return FailUsage(command->verb + ": " + name + " needs a value");
  if (app.count("--rank"))
    if (const auto status = TakeRanks(ranks, &rules)) return status;
  if (const auto status = TakeLength(steps, duration, no_wait, taken, command)) return status;
  if (const auto status = TakeCommonStep(at_step, timeout, command)) return status;
  return TakeCaptureOptions(taken, command);
}

ordered_json AnswerJson(const Answer& answer) {
  ordered_json row{{"pid", answer.agent.pid},
                   {"session", answer.agent.session},
                   {"verdict", VerdictText(answer)}};
  row["reason"] = answer.message ? answer.message->reason() : answer.error;
  const int64_t rank = RankOf(answer);
  const ordered_json rank_json = rank < 0 ? ordered_json() : ordered_json(rank);
  if (!answer.message) {
    row.update({{"title", answer.title}, {"rank", rank_json}});
    return row;
  }
  const v1::AgentStatus& s = answer.message->status();
  row.update({{"title", s.title()},
              {"exe", s.exe()},
              {"rank", rank_json},
              {"run", s.run()},
              {"phase", launch::PhaseText(answer.is_gone ? v1::PHASE_DONE : s.phase())},
              {"has_ended", answer.is_gone},
              {"step", s.step()},
              {"cycle", s.cycle()},
              {"cycles_written", s.cycles_written()},
              {"records", s.records()},
              {"last_error", s.last_error()},
              {"session_dir", s.session_dir()},
              {"busy_count", s.busy_count()},
              {"step_source", s.step_source()},
              {"has_cuda", s.has_cuda()},
              {"awaits_files", s.awaits_files()},
              {"cycles_lost", s.cycles_lost()},
              {"signal_off", s.signal_off()}});
  row["gpus"] = std::vector<uint32_t>(s.gpus().begin(), s.gpus().end());
  row["written"] = std::vector<std::string>(s.written().begin(), s.written().end());
  row["top_ranges"] = ordered_json::array();
  for (const v1::NameCount& range : s.top_ranges())
    row["top_ranges"].push_back(
        {{"name", range.name()}, {"domain", range.domain()}, {"count", range.count()}});
  return row;
}

// Names of ranges are the application's bytes: whatever is no UTF-8 is replaced.
std::string JsonText(const ordered_json& document) {
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

int PrintAnswers(const Command& command, const std::vector<Answer>& answers) {
  bool is_good = true;
  ordered_json rows = ordered_json::array();
  for (const Answer& answer : answers) {
    is_good &= answer.message && answer.message->verdict() == v1::ControlAnswer::OK;
    if (command.as_json) {
      rows.push_back(AnswerJson(answer));
      continue;
    }
    std::string line = StatusLine(answer);
    if (command.verb != "status" && answer.message) line += "  " + VerdictLine(answer);
    std::printf("%s\n", line.c_str());
  }
  if (command.as_json) std::printf("%s\n", JsonText(rows).c_str());
  std::fflush(stdout);
  return is_good ? 0 : 1;
}

v1::ControlRequest::Verb VerbOf(const std::string& verb) {
  if (verb == "start") return v1::ControlRequest::START;
  if (verb == "stop") return v1::ControlRequest::STOP;
  if (verb == "toggle") return v1::ControlRequest::TOGGLE;
  return v1::ControlRequest::STATUS;
}

// The request to every target; a start by steps begins with the same step in all of a run.
CommonStart Send(const Command& command, const std::vector<Answer>& targets,
                 const Deadline& deadline) {
  CommonStart start;
  start.answers = targets;
  if (command.verb == "status") return start;
  if (command.verb == "start")
    return StartTogether(targets, command.request, command.at_step, command.warmup, deadline);
  std::vector<proto::AgentEntry> agents;
  for (const Answer& target : targets) agents.push_back(target.agent);
  start.answers = launch::AskAll(agents, command.request);
  return start;
}

// Which step recording begins with, once for each; of several, whose it is.
void SayBeginSteps(const CommonStart& start) {
  std::map<uint64_t, std::string> pids;
  for (size_t i = 0; i < start.at_steps.size(); ++i) {
    const Answer& answer = start.answers[i];
    const bool is_taken = answer.message && answer.message->verdict() == v1::ControlAnswer::OK;
    if (!is_taken || !start.at_steps[i]) continue;
    std::string& text = pids[*start.at_steps[i]];
    text += (text.empty() ? "" : ", ") + std::to_string(answer.agent.pid);
  }
  for (const auto& [step, whose] : pids) {
    const std::string who = pids.size() == 1 ? "" : " in pid " + whose;
    std::fprintf(stderr, "stepagent: recording begins with step %llu%s\n",
                 static_cast<unsigned long long>(step), who.c_str());
  }
}

// Whose answer was not waited for any longer than --timeout leaves.
void SayTimeout(std::vector<Answer>* answers) {
  constexpr std::string_view kNoAnswer = "no answer in time";
  for (Answer& answer : *answers)
    if (!answer.message && answer.error.starts_with(kNoAnswer))
      answer.error.replace(0, kNoAnswer.size(), "does not answer within --timeout");
}

// The targets and what they said to the request.
struct Sent {
  Targets targets;
  CommonStart start;
};

Sent FindAndSend(const Command& command, const proto::RuntimeDirs& dirs, const Deadline& deadline) {
  Sent sent;
  std::optional<StartTurn> turn;
  const auto patience = std::chrono::steady_clock::now() + kLongestTurn;
  if (command.verb == "start")
    turn.emplace(dirs, deadline ? std::min(*deadline, patience) : patience);
  sent.targets = FindTargets(command.targets, command.verb == "status", dirs, AnswerTime(deadline));
  const Targets& targets = sent.targets;
  if (!targets.error.empty()) std::fprintf(stderr, "stepagent: %s\n", targets.error.c_str());
  if (targets.matched.empty()) return sent;
  // Nobody named it: which process the command acts on is said at once.
  if (command.targets.IsBare() && command.verb != "status")
    std::fprintf(stderr, "stepagent: %s: the one process that answers: %s\n", command.verb.c_str(),
                 StatusLine(targets.matched.front()).c_str());
  sent.start = Send(command, targets.matched, deadline);
  DescribeSilent(targets.matched, &sent.start.answers);
  if (deadline) SayTimeout(&sent.start.answers);
  return sent;
}

}  // namespace

int ControlMain(const std::string& verb, const std::vector<std::string>& args,
                char* const* environment) {
  Command command;
  command.verb = verb;
  command.request = launch::MakeRequest(VerbOf(verb));
  if (const auto status = ParseCommand(args, &command)) return *status;
  Deadline deadline;
  if (command.timeout_ns)
    deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(*command.timeout_ns);
  const proto::RuntimeDirs dirs = proto::RuntimeDirsFromEnvironment(environment);
  auto [targets, start] = FindAndSend(command, dirs, deadline);
  if (targets.matched.empty()) {
    if (command.as_json) std::printf("[]\n");
    return 1;
  }
  if (!start.error.empty()) std::fprintf(stderr, "stepagent: start: %s\n", start.error.c_str());
  SayBeginSteps(start);
  start.at_steps.resize(start.answers.size());
  Laggards laggards{start.at_steps, kLaggardTime, deadline, {}};
  bool is_good = targets.error.empty() && start.error.empty();
  if (!command.waits) return PrintAnswers(command, start.answers) == 0 && is_good ? 0 : 1;
  WaitUntilIdle(&start.answers, targets.matched, dirs, &laggards);
  is_good = is_good && laggards.names.empty();
  for (size_t i = 0; i < start.answers.size(); ++i) {
    const StartOutcome outcome = OutcomeOf(start.answers[i], targets.matched[i]);
    is_good = is_good && outcome.is_good;
    if (!command.as_json) PrintOutcome(start.answers[i], outcome);
  }
  if (command.as_json) static_cast<void>(PrintAnswers(command, start.answers));
  return is_good ? 0 : 1;
}

}  // namespace stepagent::cli
