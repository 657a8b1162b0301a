#include "collector/launch/run_plan.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "collector/launch/environment.h"
#include "collector/launch/setting_args.h"
#include "proto/rank_info.h"
#include "proto/redaction.h"
#include "proto/run_name.h"

namespace stepagent::launch {
namespace {

constexpr int kUsage = 2;

void Refuse(RunPlan* plan, std::string line) {
  plan->error = std::move(line);
  plan->status = kUsage;
}

bool ApplyAll(const SettingArgs& args, char* const* environment, RunPlan* plan) {
  plan->settings = proto::DefaultSettings();
  std::vector<std::string> unknown;
  if (const auto error = proto::ApplyEnvironment(environment, &plan->settings, &unknown)) {
    Refuse(plan, error->Line());
    return false;
  }
  for (const std::string& name : unknown)
    plan->says.push_back(name + ": no such variable; ignored");
  for (const auto& [name, value] : args.settings)
    if (const auto error = proto::ApplySetting("--" + name, value, &plan->settings)) {
      Refuse(plan, error->Line());
      return false;
    }
  return true;
}

// Defaults that `run` has and a bare preload has not.
void ApplyRunDefaults(RunPlan* plan) {
  proto::Settings& s = plan->settings;
  if (proto::ApplyDefaultSchedule(&s)) {
    const std::string text = s.schedule->Text();
    plan->says.push_back("no schedule given: " + text.substr(0, text.rfind(",skip_first_wait")));
    plan->variables.emplace_back("STEPAGENT_SCHEDULE", text);
  }
  if (s.arm == proto::ArmMode::kUnset) s.arm = proto::ArmMode::kStart;
  plan->is_whole = !proto::HasStepSource(s) && !s.schedule && s.arm == proto::ArmMode::kStart;
}

// Other folders than ours may be the current one of a process further down.
void MakeAbsolute(proto::Settings* s) {
  s->out = AbsolutePath(s->out);
  if (!s->log_file.empty()) s->log_file = AbsolutePath(s->log_file);
  if (s->collector != "auto" && s->collector[0] != '@') s->collector = AbsolutePath(s->collector);
}

void ListVariables(const SettingArgs& args, RunPlan* plan) {
  const proto::Settings& s = plan->settings;
  const auto texts = proto::SettingsText(s);
  std::vector<std::string> names{"arm", "signal"};
  for (const auto& setting : args.settings) names.push_back(setting.first);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  // As given where the text stands for itself: the canonical one is always UTF-8, a range's name
  // need not be.
  for (const std::string& name : names) {
    const auto given = s.given.find(name);
    plan->variables.emplace_back(proto::FindSetting(name)->variable,
                                 given != s.given.end() ? given->second : texts.at(name));
  }
  const auto set = [&](const char* variable, std::string value) {
    std::erase_if(plan->variables, [&](const auto& v) { return v.first == variable; });
    plan->variables.emplace_back(variable, std::move(value));
  };
  set("STEPAGENT_OUT", s.out);
  if (s.collector != "auto") set("STEPAGENT_COLLECTOR", s.collector);
  if (!s.log_file.empty())
    set("STEPAGENT_LOG", texts.at("log").substr(0, texts.at("log").find(':') + 1) + s.log_file);
  set(proto::kRunVariable, plan->run);
  if (!plan->redact_key.empty()) set(proto::kRedactKeyVariable, plan->redact_key);
  set(proto::kRunModeVariable, plan->is_whole ? "whole" : "steps");
  set(proto::kRunLauncherVariable, std::to_string(getpid()));
}

// Lowercase hex digits of random bytes; empty when the kernel has none to give.
std::string RandomHex(size_t bytes) {
  std::string text;
  std::vector<unsigned char> random(bytes);
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) return text;
  for (const unsigned char byte : random) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

// `srun -n 4 stepagent run …`: one run. A step of a single task may be a shell, in which each
// `stepagent run` is a run of its own.
void ChooseRun(char* const* environment, RunPlan* plan) {
  const proto::RankInfo task = proto::ReadRank(environment);
  std::string shared;
  if (task.rank >= 0 && task.world_size > 1) shared = proto::SharedRunName(environment);
  plan->run = Environment(environment).Get(proto::kRunVariable);
  plan->is_task = plan->run.empty() && !shared.empty();
  if (plan->is_task) plan->is_first_task = (task.local_rank < 0 ? task.rank : task.local_rank) == 0;
  if (plan->run.empty()) plan->run = plan->is_task ? shared : NewRunId();
}

}  // namespace

std::string NewRunId() {
  uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
    timespec precise{};
    clock_gettime(CLOCK_MONOTONIC, &precise);
    random = static_cast<uint32_t>(precise.tv_nsec) ^ (static_cast<uint32_t>(getpid()) << 12);
  }
  return proto::OwnRunName(random);
}

RunPlan MakeRunPlan(const std::vector<std::string>& args, char* const* environment) {
  RunPlan plan;
  const SettingArgs taken = TakeSettings(args, true);
  if (!taken.error.empty()) {
    Refuse(&plan, taken.error);
    return plan;
  }
  for (const std::string& word : taken.rest) {
    if (word == "-h" || word == "--help")
      plan.wants_help = true;
    else if (plan.error.empty())
      Refuse(&plan, word.substr(0, word.find('=')) +
                        ": no such option of run; stepagent run --help lists them");
  }
  if (plan.wants_help || !plan.error.empty()) return plan;
  if (!ApplyAll(taken, environment, &plan)) return plan;
  if (const auto error = proto::CheckTogether(plan.settings)) {
    Refuse(&plan, error->Line());
    return plan;
  }
  if (taken.command.empty()) {
    Refuse(&plan, "run: no command; usage: stepagent run [options] -- COMMAND [ARGUMENT…]");
    return plan;
  }
  plan.command = taken.command;
  ChooseRun(environment, &plan);
  // One for the tree, whoever redacts and when: names are then equal in all files of the run. Tasks
  // have no tree in common: their agents make the same key from the run's id.
  if (!plan.is_task && !Environment(environment).Has(proto::kRedactKeyVariable))
    plan.redact_key = RandomHex(16);
  ApplyRunDefaults(&plan);
  MakeAbsolute(&plan.settings);
  ListVariables(taken, &plan);
  return plan;
}

}  // namespace stepagent::launch
