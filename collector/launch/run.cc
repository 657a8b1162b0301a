#include "collector/launch/run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "collector/launch/child.h"
#include "collector/launch/collector_word.h"
#include "collector/launch/environment.h"
#include "collector/launch/library.h"
#include "collector/launch/program.h"
#include "collector/launch/progress_bar.h"
#include "collector/launch/run_plan.h"
#include "collector/launch/run_report.h"
#include "collector/launch/run_toggle.h"
#include "collector/launch/seen_folder.h"
#include "collector/launch/seen_ranks.h"
#include "collector/launch/setting_args.h"
#include "proto/shell_word.h"

namespace stepagent::launch {
namespace {

constexpr int kOwnFailure = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
// Writing the largest cycle that the default limits allow takes longer than any of our tests; past
// this the collector goes on alone, and `stepagent wait` waits for it.
constexpr auto kLongestWait = std::chrono::minutes(10);

// How the child ended, and what the collector said to that.
struct Ending {
  v1::TargetEnded ended;
  CollectorWord collector;
  std::set<int64_t> seen_ranks;
  bool saw_folder = false;
};

proto::RuntimeDirs DirsOf(const Environment& environment) {
  return {environment.Get("STEPAGENT_RUNTIME_DIR"), environment.Get("XDG_RUNTIME_DIR")};
}

// One write per line: several launchers (one per rank) may share the terminal.
void Say(const std::string& line) {
  const std::string text = "stepagent: " + line + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nobody to tell
}

int FailWith(const std::string& line, int status) {
  Say(line);
  return status;
}

int PrintHelp() {
  const std::string text =
      "usage: stepagent run [options] -- COMMAND [ARGUMENT...]\n\n"
      "Starts COMMAND with stepagent in it, keeps its exit status, prints where the traces are.\n"
      "Each option is an environment variable too; a flag wins over the variable.\n\n" +
      SettingsHelp();
  std::fputs(text.c_str(), stdout);
  return 0;
}

// Finds the library and sets the variables. False: `error` says why.
bool PrepareEnvironment(const RunPlan& plan, const Program& program, Environment* environment,
                        std::string* error) {
  const proto::RuntimeDirs dirs = DirsOf(*environment);
  for (const auto& [name, value] : plan.variables) environment->Set(name, value);
  if (program.RefusesPreload()) return true;
  Library library = FindLibrary(OwnExecutable(), environment->Get("STEPAGENT_LIB"));
  if (!library.path.empty()) library = PreloadableLibrary(library.path, dirs);
  *error = library.error;
  if (library.path.empty()) return false;
  std::vector<std::string> taken;
  AddInjection(library.path, environment, &taken);
  for (const std::string& line : taken) Say(line);
  return true;
}

int StartStatus(const std::string& command, int error) {
  Say(proto::ShellWord(command) + ": " + std::strerror(error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

WaitResult WaitUntilWritten(const RunPlan& plan, const proto::RuntimeDirs& dirs,
                            const SignalGate& gate, const Ending& ending) {
  const auto begin = std::chrono::steady_clock::now();
  ProgressBar bar(STDERR_FILENO, "stepagent: writing traces", begin);
  WaitRules rules;
  rules.paths = {plan.RunFolder()};
  if (!ending.collector.run_folder.empty()) rules.paths.push_back(ending.collector.run_folder);
  rules.ended = &ending.ended;
  rules.deadline = begin + kLongestWait;
  rules.leaves_living = true;
  rules.collector_run = plan.run;
  rules.dirs = dirs;
  rules.is_interrupted = [&] {
    while (const auto info = gate.Next())
      for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGHUP})
        if (static_cast<int>(info->ssi_signo) == number) return true;
    return false;
  };
  rules.on_round = [&](const std::vector<SessionEntry>& sessions) {
    uint64_t done = 0, total = 0;
    for (const SessionEntry& session : sessions)
      for (const CycleEntry& cycle : session.cycles) {
        ++total;
        done += cycle.IsWritten() ? 1 : 0;
      }
    bar.Show(done, total, std::chrono::steady_clock::now());
  };
  return WaitForSessions(rules);
}

// The last lines, and the status when required kinds are missing.
int Finish(const RunPlan& plan, const Program& program, const Environment& environment,
           const SignalGate& gate, const Ending& ending) {
  const proto::RuntimeDirs dirs = DirsOf(environment);
  RunOutcome outcome;
  outcome.collector = ending.collector;
  outcome.seen_ranks = ending.seen_ranks;
  outcome.saw_folder = ending.saw_folder;
  outcome.written = WaitUntilWritten(plan, dirs, gate, ending);
  outcome.program_warning = ProgramWarning(program);
  if (proto::IsDisabledValue(environment.Get(proto::kDisableVariable)))
    outcome.program_warning = "STEPAGENT_DISABLE is set";
  for (const std::string& line : RunReport(plan, outcome)) Say(line);
  const uint32_t missing = MissingKinds(plan, outcome.written.sessions);
  const bool is_good_end = ending.ended.signal() == 0 && ending.ended.exit_status() == 0;
  if (missing == 0 || !is_good_end) return 0;
  proto::Settings shown = plan.settings;
  shown.require = missing;
  Say("required and not collected: " + proto::SettingsText(shown).at("require"));
  return kOwnFailure;
}

}  // namespace

int RunMain(const std::vector<std::string>& args, char* const* environment) {
  const RunPlan plan = MakeRunPlan(args, environment);
  if (plan.wants_help) return PrintHelp();
  if (!plan.error.empty()) return FailWith(plan.error, plan.status);
  Environment target(environment);
  const Program program =
      InspectProgram(plan.command[0], target.Has("PATH") ? target.Get("PATH") : "/bin:/usr/bin");
  if (program.found != Found::kYes)
    return StartStatus(plan.command[0], program.found == Found::kMissing ? ENOENT : EACCES);
  const SignalGate gate;
  std::string error;
  if (!PrepareEnvironment(plan, program, &target, &error)) return FailWith(error, kOwnFailure);
  for (const std::string& line : plan.says) Say(line);
  if (const std::string warning = ProgramWarning(program); !warning.empty()) Say(warning);

  std::vector<char*> argv;
  for (const std::string& word : plan.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Child child(gate);
  if (const int failed = child.Start(argv.data(), target.Pointers().data())) {
    if (child.pid() < 0)
      return FailWith(std::string("fork: ") + std::strerror(failed), kOwnFailure);
    return StartStatus(plan.command[0], failed);
  }
  RunToggle toggle(plan.run, target);
  SeenRanks seen;
  SeenFolder folder(plan.RunFolder());
  const bool has_ranks = plan.settings.ranks.has_value();
  const auto look = [&] {
    const int for_folder = folder.Look();
    const int for_ranks = has_ranks ? seen.Look() : -1;
    return for_folder < 0 || for_ranks < 0 ? std::max(for_folder, for_ranks)
                                           : std::min(for_folder, for_ranks);
  };
  const ChildHooks hooks{plan.settings.signal_number, [&] { toggle.Request(); }, look};
  const int status = child.Watch(hooks);
  // At once: the collector may be waiting for just that.
  Ending ending{MakeTargetEnded(plan.run, child.pid(), status), {}, seen.ranks(),
                folder.was_there()};
  ending.collector = TellCollector(plan.settings.collector, DirsOf(target), ending.ended);
  toggle.Join();
  const int own = Finish(plan, program, target, gate, ending);
  return own != 0 ? own : EndLike(status);
}

}  // namespace stepagent::launch
