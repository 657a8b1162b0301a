#include "collector/cli/doctor.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <tuple>

#include "CLI/CLI.hpp"
#include "collector/cli/arguments.h"
#include "collector/cli/doctor_check.h"
#include "collector/cli/doctor_device.h"
#include "collector/cli/doctor_findings.h"
#include "collector/cli/doctor_trial.h"
#include "collector/launch/library.h"
#include "collector/launch/setting_args.h"
#include "nlohmann/json.hpp"
#include "proto/settings.h"

namespace stepagent::cli {
namespace {

using nlohmann::ordered_json;
using State = Check::State;

const char* StateText(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kWarning:
      return "warn";
    case State::kFailure:
      return "FAIL";
  }
  return "";
}

std::string OneLine(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  return text;
}

void PrintLine(const Check& check) {
  const std::string type = check.type.empty() ? "" : " | type: " + check.type;
  std::printf("%-4s  %-14s  %s | %s%s\n", StateText(check.state), check.id.c_str(),
              OneLine(check.found).c_str(), check.why.c_str(), OneLine(type).c_str());
}

void PrintJson(const Checks& checks, const std::string& next, bool is_good) {
  ordered_json rows = ordered_json::array();
  for (const Check& check : checks)
    rows.push_back({{"id", check.id},
                    {"state", check.state == State::kFailure ? "fail" : StateText(check.state)},
                    {"found", check.found},
                    {"why", check.why},
                    {"type", check.type}});
  const ordered_json document{
      {"schema", "stepagent.doctor/1"},
      {"good", is_good},
      {"checks", rows},
      // Where something would fail, what the checks say is to be typed first.
      {"next", is_good ? ordered_json(next) : ordered_json()}};
  std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

struct Options {
  bool as_json = false;
  std::string trial = "60s", window = "2s";
  uint64_t trial_ns = 0, window_ns = 0;
};

std::optional<int> Parse(const launch::SettingArgs& taken, Options* options) {
  CLI::App app("Checks the ground before a run.", "stepagent doctor");
  app.add_flag("--json", options->as_json, "As JSON");
  app.add_option("--trial", options->trial, "The longest the command is tried")
      ->capture_default_str();
  app.add_option("--for", options->window, "Length of one trial window")->capture_default_str();
  app.footer(
      "Takes the capture options of `stepagent run` and checks what they name.\n"
      "With -- CMD the command is started, watched and ended again.");
  if (const auto status = ParseArguments(&app, taken.rest)) return status;
  for (const auto& [flag, text, ns] :
       {std::tuple{"--trial", &options->trial, &options->trial_ns},
        std::tuple{"--for", &options->window, &options->window_ns}}) {
    const auto parsed = proto::ParseDuration(*text);
    if (!parsed || *parsed == 0)
      return FailUsage(proto::SettingError{flag, *text, "", "a duration above 0 (5s, 2m)"}.Line());
    *ns = *parsed;
  }
  return std::nullopt;
}

// The command fails for a reason that is told already: it is not told twice.
Checks WithoutTold(const Checks& told, Checks checks) {
  const auto has_failed = [&told](const std::string& id) {
    return std::any_of(told.begin(), told.end(), [&id](const Check& check) {
      return check.id == id && check.state == State::kFailure;
    });
  };
  std::erase_if(checks, [&](const Check& check) {
    return check.state == State::kFailure && has_failed(check.id);
  });
  for (Check& check : checks) {
    const bool is_for_want_of_cuda = check.id == "processes" && has_failed("driver");
    if (check.state != State::kFailure || !is_for_want_of_cuda) continue;
    check.state = State::kWarning;
    check.why = "without a driver no process uses CUDA";
    check.type = "";
  }
  return checks;
}

// What a trial told, where it was let end; and what has another check's failure for its cause.
Checks OfTrial(const Checks& told, Checks checks, const Trial& trial) {
  if (trial.interrupted_by != 0) {
    return {
        {"trial", State::kFailure,
         "interrupted by SIG" + proto::SignalText(trial.interrupted_by) + " before it had ended",
         "what it would have shown is not known", "stepagent doctor once more"}};
  }
  const bool is_taken = std::any_of(told.begin(), told.end(), [](const Check& check) {
    return check.id == "cuda-injection" && check.state == State::kFailure;
  });
  if (is_taken) std::erase_if(checks, [](const Check& check) { return check.id == "agent"; });
  return checks;
}

}  // namespace

int DoctorMain(const std::vector<std::string>& args, char* const* environment) {
  const launch::SettingArgs taken = launch::TakeSettings(args, false);
  if (!taken.error.empty()) return FailUsage(taken.error);
  Options options;
  if (const auto status = Parse(taken, &options)) return *status;
  const launch::SignalGate gate;
  const Ground ground = SurveyGround(taken, environment);
  Checks checks = CheckGround(ground);
  const auto add = [&](Checks more) { checks.insert(checks.end(), more.begin(), more.end()); };
  const auto has_failed = [&](const char* id) {
    for (const Check& check : checks)
      if (check.id == id && check.state == State::kFailure) return true;
    return false;
  };
  // Without the library, or with settings that leave it inert, a trial shows nothing more.
  const bool can_try = !has_failed("library") && !has_failed("settings");
  std::optional<Trial> trial;
  int interrupted_by = 0;
  if (can_try) {
    TrialPlan own{{launch::OwnExecutable(), kDoctorDevice}};
    own.keeps_output = true;
    own.limit_ns = options.trial_ns;
    const Trial of_own = RunTrial(ground, own, gate);
    interrupted_by = of_own.interrupted_by;
    add(OfTrial(checks, DeviceFindings(of_own), of_own));
  }
  const bool is_wanted = !ground.command.empty() && !has_failed("command");
  if (can_try && is_wanted && interrupted_by == 0) {
    TrialPlan plan{ground.command, options.window_ns, options.trial_ns, /*looks_twice=*/true};
    trial = RunTrial(ground, plan, gate);
    interrupted_by = trial->interrupted_by;
    add(OfTrial(checks, WithoutTold(checks, CommandFindings(ground, *trial)), *trial));
  }
  bool is_good = true;
  for (const Check& check : checks) is_good &= check.state != State::kFailure;
  const std::string next = NextCommand(ground, trial ? &*trial : nullptr);
  if (options.as_json) {
    PrintJson(checks, next, is_good);
  } else {
    for (const Check& check : checks) PrintLine(check);
    std::printf("%s\n", is_good ? ("next: " + next).c_str()
                                : "something would fail: type what the lines marked FAIL say");
  }
  if (interrupted_by != 0) return 128 + interrupted_by;
  return is_good ? 0 : 1;
}

}  // namespace stepagent::cli
