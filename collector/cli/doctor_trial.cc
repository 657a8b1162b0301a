#include "collector/cli/doctor_trial.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "collector/cli/doctor_ends.h"
#include "collector/cli/doctor_results.h"
#include "collector/cli/start_wait.h"
#include "collector/launch/control_client.h"
#include "collector/launch/run_plan.h"
#include "collector/launch/session_wait.h"
#include "proto/out_folder.h"

namespace stepagent::cli {
namespace {

using Clock = std::chrono::steady_clock;
using launch::Answer;
using nlohmann::json;
constexpr int kRoundMs = 50;
// Between asking a program to end and making it.
constexpr auto kPatience = std::chrono::seconds(5);
// A collector writes two seconds of records in well under one; this is for a machine that is busy.
constexpr auto kLongestWriting = std::chrono::seconds(30);
// At the program's first use of CUDA or NVTX: short, so that a profiler of its own, which most
// programs begin later, finds CUPTI free and is there for the second window to meet.
constexpr uint64_t kFirstWindowNs = 300'000'000;

// What to record is the command's business: the doctor's own program is recorded whole, always.
constexpr const char* kNotOfOwnProgram[] = {"ranks",      "activities",  "stacks",   "graph",
                                            "max-traces", "max-records", "max-bytes"};

// Settings of the command line that the trial takes over; the others it sets itself.
bool IsTrialsOwn(const std::string& name) {
  for (const char* own :
       {"schedule", "step", "arm", "out", "collector", "require", "max-window", "max-traces"})
    if (name == own) return true;
  return false;
}

class TrialRun {
 public:
  TrialRun(const Ground& ground, const TrialPlan& plan, const launch::SignalGate& gate)
      : ground_(ground), plan_(plan), gate_(gate), run_(launch::NewRunId()) {}
  ~TrialRun() {
    if (output_ >= 0) close(output_);
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  Trial Run() {
    const auto begin = Clock::now();
    if (!MakeFolder() || !Start()) return std::move(trial_);
    const auto deadline = begin + std::chrono::nanoseconds(plan_.limit_ns);
    while (!IsOver(deadline)) poll(nullptr, 0, kRoundMs);
    LookAtProcesses();
    CloseWindows();
    EndTree();
    ReadResults();
    trial_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return std::move(trial_);
  }

 private:
  bool MakeFolder();
  bool Start();
  launch::Environment Variables() const;
  bool IsOver(Clock::time_point deadline);
  bool Reap();
  void LookAtProcesses();
  void NoteAnswers();
  void StartAgain();
  WindowAnswer AnswerSoFar() const;
  bool AreAtRest() const;
  bool AreChosenRanksSeen() const;
  bool IsSecondLookOver(WindowAnswer answer);
  void CloseWindows();
  void EndTree();
  void ReadResults();
  bool IsInterrupted();

  const Ground& ground_;
  const TrialPlan& plan_;
  const launch::SignalGate& gate_;
  const std::string run_;
  std::string folder_;
  pid_t child_ = -1;
  int output_ = -1;
  Trial trial_;
  std::vector<Answer> answers_;
  enum class Stage { kFirst, kFree, kSecond };
  Stage stage_ = Stage::kFirst;
  Clock::time_point free_since_;
};

// Traces of a trial are nobody's: into a folder that is removed, wherever one can be made.
bool TrialRun::MakeFolder() {
  const std::string out = proto::ExistingFolder(ground_.settings.out);
  for (std::string base :
       {ground_.environment.Get("TMPDIR"), std::string("/tmp"), out, std::string("/dev/shm")}) {
    if (base.empty() || base[0] != '/') continue;
    base += "/stepagent-doctor-XXXXXX";
    if (mkdtemp(base.data()) == nullptr) continue;
    folder_ = base;
    return true;
  }
  trial_.error = "there is no folder to write a trial into (TMPDIR, /tmp, " + out + ", /dev/shm)";
  return false;
}

launch::Environment TrialRun::Variables() const {
  launch::Environment environment = ground_.environment;
  for (const proto::SettingSpec& spec : proto::AllSettings())
    if (IsTrialsOwn(spec.flag + 2)) environment.Unset(spec.variable);
  const auto texts = proto::SettingsText(ground_.settings);
  for (const auto& [name, value] : ground_.given)
    if (!IsTrialsOwn(name)) environment.Set(proto::FindSetting(name)->variable, texts.at(name));
  if (plan_.keeps_output)
    for (const char* name : kNotOfOwnProgram) environment.Unset(proto::FindSetting(name)->variable);
  environment.Set("STEPAGENT_OUT", folder_);
  environment.Set("STEPAGENT_ARM", "start");
  const uint64_t first_ns =
      plan_.looks_twice ? std::min(plan_.window_ns, kFirstWindowNs) : plan_.window_ns;
  environment.Set("STEPAGENT_MAX_WINDOW", std::to_string(first_ns) + "ns");
  environment.Set("STEPAGENT_MAX_TRACES", "0");
  environment.Set("STEPAGENT_EXIT_WAIT", "10s");
  environment.Set(proto::kRunVariable, run_);
  environment.Set(proto::kRunModeVariable, "whole");
  std::vector<std::string> taken;  // a check of its own says so
  launch::AddInjection(ground_.library, &environment, &taken);
  return environment;
}

// stdin is empty and stdout is not ours to write on: ours may be read as JSON.
[[noreturn]] void Become(const launch::SignalGate& gate, int out, int report, char* const* argv,
                         char* const* environment) {
  setpgid(0, 0);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  gate.Restore();
  execvpe(argv[0], argv, environment);
  const int error = errno;
  (void)!write(report, &error, sizeof error);
  _exit(127);
}

bool TrialRun::Start() {
  launch::Environment environment = Variables();
  std::vector<char*> argv;
  for (const std::string& word : plan_.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int report[2], out[2] = {-1, STDERR_FILENO};
  if (pipe2(report, O_CLOEXEC) != 0 || (plan_.keeps_output && pipe2(out, O_CLOEXEC) != 0)) {
    trial_.error = std::string("pipe: ") + std::strerror(errno);
    return false;
  }
  // What it leaves behind becomes our child: seen in the tree, and ended with it.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::vector<char*> entries = environment.Pointers();
  child_ = fork();
  if (child_ == 0) Become(gate_, out[1], report[1], argv.data(), entries.data());
  int error = child_ < 0 ? errno : 0;
  close(report[1]);
  if (plan_.keeps_output) close(out[1]);
  output_ = out[0];
  if (child_ > 0 && read(report[0], &error, sizeof error) <= 0) error = 0;
  close(report[0]);
  if (error == 0) return true;
  if (child_ > 0) waitpid(child_, nullptr, 0);
  trial_.error = plan_.command[0] + ": " + std::strerror(error);
  return false;
}

bool TrialRun::Reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != child_) continue;
    trial_.has_ended = true;
    trial_.wait_status = status;
  }
  return trial_.has_ended;
}

bool TrialRun::IsInterrupted() {
  while (const auto info = gate_.Next())
    for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGHUP})
      if (static_cast<int>(info->ssi_signo) == number) trial_.interrupted_by = number;
  return trial_.interrupted_by != 0;
}

// Another window, in processes that have CUDA and whose last one is written.
void TrialRun::StartAgain() {
  v1::ControlRequest request = launch::MakeRequest(v1::ControlRequest::START);
  request.set_duration_ns(plan_.window_ns);
  (*request.mutable_settings())["max-window"] = std::to_string(plan_.window_ns) + "ns";
  std::vector<proto::AgentEntry> idle;
  for (const Answer& answer : answers_) {
    const v1::AgentStatus& status = answer.message->status();
    if (status.has_cuda() && status.cycle() > 0 && IsAtRest(status)) idle.push_back(answer.agent);
  }
  static_cast<void>(launch::AskAll(idle, request));
}

void TrialRun::NoteAnswers() {
  answers_.clear();
  const auto agents = proto::ListAgents(ground_.dirs, geteuid());
  for (Answer& answer : launch::AskAll(agents, launch::MakeRequest(v1::ControlRequest::STATUS)))
    if (answer.message && answer.message->status().run() == run_)
      answers_.push_back(std::move(answer));
}

// A window with device work, or one that says why there is none.
WindowAnswer TrialRun::AnswerSoFar() const {
  // The doctor's own program is recorded whole, whatever is asked for.
  const uint32_t activities =
      plan_.keeps_output ? proto::DefaultSettings().activities : ground_.settings.activities;
  WindowAnswer best = WindowAnswer::kNone;
  for (const launch::SessionEntry& session : launch::ReadSessions({folder_}))
    for (const launch::CycleEntry& cycle : session.cycles)
      if (cycle.IsWritten())
        best = std::max(best, AnswerOf(ReadManifest(session, cycle), activities));
  return best;
}

bool TrialRun::AreAtRest() const {
  return std::all_of(answers_.begin(), answers_.end(),
                     [](const Answer& answer) { return IsAtRest(answer.message->status()); });
}

// Of --ranks those that there must be, by the number of ranks that the others were told: one that
// starts late is not said to be missing.
bool TrialRun::AreChosenRanksSeen() const {
  if (plan_.keeps_output || !ground_.settings.ranks) return true;
  return RanksNotSeen(ground_, trial_).late.empty();
}

// A client that comes after us finds CUPTI's one place taken and may never try again; so it is left
// free for a while between two windows. Without a device there is only the longer window to come,
// for the ranges in it.
bool TrialRun::IsSecondLookOver(WindowAnswer answer) {
  if (answers_.empty()) return true;
  if (!AreAtRest()) return false;
  const auto now = Clock::now();
  if (stage_ == Stage::kFirst) {
    stage_ = Stage::kFree;
    free_since_ = now;
  }
  if (stage_ == Stage::kSecond) {
    trial_.looked_twice = true;
    return true;
  }
  const bool is_free_enough = now - free_since_ >= std::chrono::nanoseconds(plan_.window_ns);
  if (answer == WindowAnswer::kWork && !is_free_enough) return false;
  stage_ = Stage::kSecond;
  StartAgain();
  return false;
}

bool TrialRun::IsOver(Clock::time_point deadline) {
  if (Reap()) return true;
  NoteAnswers();
  LookAtProcesses();
  if (Clock::now() >= deadline || IsInterrupted()) return true;
  const WindowAnswer answer = AnswerSoFar();
  if (answer != WindowAnswer::kNone && !AreChosenRanksSeen()) return false;
  if (answer != WindowAnswer::kNone) return !plan_.looks_twice || IsSecondLookOver(answer);
  StartAgain();
  return false;
}

// The trial is shorter than its window, or was interrupted: what is open ends in order, so that
// nothing of it is missing.
void TrialRun::CloseWindows() {
  std::vector<proto::AgentEntry> open;
  for (const Answer& answer : answers_)
    if (!IsAtRest(answer.message->status())) open.push_back(answer.agent);
  if (open.empty() || trial_.has_ended) return;
  static_cast<void>(launch::AskAll(open, launch::MakeRequest(v1::ControlRequest::STOP)));
  const auto deadline = Clock::now() + kPatience;
  for (bool is_open = true; is_open && Clock::now() < deadline && !Reap();) {
    NoteAnswers();
    is_open = !AreAtRest();
    if (is_open) poll(nullptr, 0, kRoundMs);
  }
}

void TrialRun::LookAtProcesses() {
  for (launch::TreeProcess& seen : launch::ProcessesBelow(getpid())) {
    // The collector that our agent started is ours, and a child that has not exec'd yet is us.
    if (seen.title.starts_with("stepcollector ") || seen.is_zombie) continue;
    if (seen.pid == child_ && seen.stepagent.empty() &&
        seen.title.find(" doctor") != std::string::npos)
      continue;
    const auto known = std::find_if(trial_.processes.begin(), trial_.processes.end(),
                                    [&](const TrialProcess& p) { return p.seen.pid == seen.pid; });
    TrialProcess& process =
        known != trial_.processes.end() ? *known : trial_.processes.emplace_back();
    process.seen = std::move(seen);
    ++process.looks;
  }
  for (const Answer& answer : answers_)
    for (TrialProcess& process : trial_.processes) {
      if (process.seen.pid != answer.agent.pid) continue;
      process.has_agent = true;
      process.has_cuda = answer.message->status().has_cuda();
      process.rank = answer.message->status().rank();
    }
}

// A window still open is cut there; what came of it is written all the same.
void TrialRun::EndTree() {
  const auto signal_all = [](int number) {
    size_t count = 0;
    for (const launch::TreeProcess& process : launch::ProcessesBelow(getpid())) {
      if (process.is_zombie || process.title.starts_with("stepcollector ")) continue;
      ++count;
      kill(process.pid, number);
    }
    return count;
  };
  for (const int number : {SIGTERM, SIGKILL}) {
    if (signal_all(number) == 0) break;
    const auto deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
      const bool is_over = signal_all(0) == 0;
      // After the look: whoever was seen to be a zombie is taken.
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      if (is_over) break;
      poll(nullptr, 0, kRoundMs);
    }
  }
}

void TrialRun::ReadResults() {
  if (output_ >= 0) {
    char block[65536];
    fcntl(output_, F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(output_, block, sizeof block)) > 0;)
      trial_.output.append(block, static_cast<size_t>(n));
  }
  launch::WaitRules rules;
  rules.paths = {folder_};
  rules.deadline = Clock::now() + kLongestWriting;
  rules.collector_run = run_;
  rules.dirs = ground_.dirs;
  rules.is_interrupted = [this] { return IsInterrupted(); };
  const launch::WaitResult result = launch::WaitForSessions(rules);
  AddResults(result.sessions, &trial_);
}

}  // namespace

Trial RunTrial(const Ground& ground, const TrialPlan& plan, const launch::SignalGate& gate) {
  return TrialRun(ground, plan, gate).Run();
}

}  // namespace stepagent::cli
