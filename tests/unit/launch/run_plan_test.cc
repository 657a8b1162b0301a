// Options, environment and defaults of `run`.
#include "collector/launch/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "collector/launch/progress_bar.h"
#include "collector/launch/setting_args.h"

namespace stepagent::launch {
namespace {

RunPlan Plan(const std::vector<std::string>& args, std::vector<std::string> variables = {}) {
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  return MakeRunPlan(args, pointers.data());
}

std::map<std::string, std::string> Variables(const RunPlan& plan) {
  return {plan.variables.begin(), plan.variables.end()};
}

TEST(TakeSettings, SplitsAtTheCommand) {
  auto taken = TakeSettings({"--graph", "node", "--activities", "-sync", "-oX", "--label=a=b",
                             "--label", "", "--", "cmd", "--graph", "x"},
                            true);
  EXPECT_EQ(taken.error, "");
  EXPECT_EQ(taken.command, (std::vector<std::string>{"cmd", "--graph", "x"}));
  const std::vector<std::pair<std::string, std::string>> expected{
      {"graph", "node"}, {"activities", "-sync"}, {"out", "X"}, {"label", "a=b"}, {"label", ""}};
  EXPECT_EQ(taken.settings, expected);
  taken = TakeSettings({"--cuda-graph-trace=node", "cmd", "--", "x"}, true);
  EXPECT_EQ(taken.command, (std::vector<std::string>{"cmd", "--", "x"}));
  EXPECT_EQ(taken.settings[0].first, "graph");
  taken = TakeSettings({"12", "--graph", "node", "--all"}, false);
  EXPECT_EQ(taken.rest, (std::vector<std::string>{"12", "--all"}));
  EXPECT_EQ(TakeSettings({"schedule", "x"}, false).rest.size(), 2U);
}

TEST(TakeSettings, RefusesRepeatsAndMissingValues) {
  EXPECT_EQ(TakeSettings({"--graph", "node", "--cuda-graph-trace", "node"}, true).error,
            "--cuda-graph-trace: 'node': given twice; allowed: graph, node");
  EXPECT_EQ(TakeSettings({"--graph"}, true).error,
            "--graph: '': needs a value; allowed: graph, node");
}

TEST(RunPlan, NothingSetRecordsTheWholeRun) {
  const RunPlan plan = Plan({"--", "app", "x"});
  EXPECT_EQ(plan.error, "");
  EXPECT_TRUE(plan.is_whole);
  EXPECT_EQ(plan.command, (std::vector<std::string>{"app", "x"}));
  auto v = Variables(plan);
  EXPECT_EQ(v["STEPAGENT_RUN_MODE"], "whole");
  EXPECT_EQ(v["STEPAGENT_ARM"], "start");
  EXPECT_EQ(v["STEPAGENT_SIGNAL"], "USR2");
  EXPECT_EQ(v["STEPAGENT_OUT"], AbsolutePath("stepagent-traces"));
  EXPECT_TRUE(std::regex_match(v["STEPAGENT_RUN"], std::regex("\\d{8}T\\d{6}_[0-9a-f]{8}")));
  EXPECT_EQ(v.count("STEPAGENT_SCHEDULE"), 0U);
  EXPECT_TRUE(plan.says.empty());
}

TEST(RunPlan, AStepSourceAloneGetsTheContractsSchedule) {
  const RunPlan plan = Plan({"--step", "nvtx:train step", "app"});
  EXPECT_FALSE(plan.is_whole);
  ASSERT_EQ(plan.says.size(), 1U);
  EXPECT_NE(plan.says[0].find("skip_first=10,wait=5,warmup=2,active=3,repeat=1"),
            std::string::npos);
  auto v = Variables(plan);
  EXPECT_EQ(v["STEPAGENT_STEP"], "nvtx:train step");
  EXPECT_EQ(v["STEPAGENT_SCHEDULE"],
            "skip_first=10,wait=5,warmup=2,active=3,repeat=1,skip_first_wait=0");
  EXPECT_EQ(v["STEPAGENT_RUN_MODE"], "steps");
}

TEST(RunPlan, FlagsWinOverVariables) {
  const RunPlan plan = Plan(
      {"--graph=node", "--label", "a=2", "app"},
      {"STEPAGENT_GRAPH=graph", "STEPAGENT_LABELS=a=1,b=1", "STEPAGENT_RUN=my-run",
       "STEPAGENT_OUT=rel", "STEPAGENT_SIGNAL=none", "STEPAGENT_ARM=demand", "STEPAGENT_TYPO=1"});
  EXPECT_EQ(plan.error, "");
  auto v = Variables(plan);
  EXPECT_EQ(v["STEPAGENT_GRAPH"], "node");
  EXPECT_EQ(v["STEPAGENT_LABELS"], "a=2,b=1");
  EXPECT_EQ(v["STEPAGENT_RUN"], "my-run");
  EXPECT_EQ(v["STEPAGENT_OUT"], AbsolutePath("rel"));
  EXPECT_EQ(v["STEPAGENT_SIGNAL"], "none");
  EXPECT_EQ(v["STEPAGENT_ARM"], "demand");
  EXPECT_FALSE(plan.is_whole);
  ASSERT_EQ(plan.says.size(), 1U);
  EXPECT_EQ(plan.says[0], "STEPAGENT_TYPO: no such variable; ignored");
}

TEST(RunPlan, TasksOfAStepShareTheRun) {
  const auto task = [](const char* rank, const char* step, const char* tasks) {
    return Plan({"app"}, {"SLURM_JOB_ID=7", step, rank, tasks});
  };
  const RunPlan first = task("SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=4");
  const RunPlan last = task("SLURM_PROCID=3", "SLURM_STEP_ID=0", "SLURM_NTASKS=4");
  EXPECT_EQ(first.run, last.run);
  EXPECT_TRUE(first.is_first_task);
  EXPECT_FALSE(last.is_first_task);
  EXPECT_EQ(last.redact_key, "");
  EXPECT_NE(task("SLURM_PROCID=0", "SLURM_STEP_ID=1", "SLURM_NTASKS=4").run, first.run);
  // A shell in a step of its own, and a batch script.
  for (const char* step : {"SLURM_STEP_ID=0", "SLURM_STEPS=0"}) {
    const char* tasks = step == std::string("SLURM_STEPS=0") ? "SLURM_NTASKS=4" : "SLURM_NTASKS=1";
    const RunPlan a = task("SLURM_PROCID=0", step, tasks), b = task("SLURM_PROCID=0", step, tasks);
    EXPECT_NE(a.run, b.run) << step;
    EXPECT_FALSE(a.is_task) << step;
    EXPECT_NE(a.redact_key, "") << step;
  }
}

TEST(RunPlan, PassesValuesOnAsGiven) {
  const RunPlan plan = Plan({"--step", "nvtx:Sch\xf6n@*", "--schedule", "active=1,wait=0", "--log",
                             "debug:x.log", "--collector", "c.sock", "app"});
  EXPECT_EQ(plan.error, "");
  auto v = Variables(plan);
  EXPECT_EQ(v["STEPAGENT_STEP"], "nvtx:Sch\xf6n@*");
  EXPECT_EQ(v["STEPAGENT_SCHEDULE"], "active=1,wait=0");
  EXPECT_EQ(v["STEPAGENT_LOG"], "debug:" + AbsolutePath("x.log"));
  EXPECT_EQ(v["STEPAGENT_COLLECTOR"], AbsolutePath("c.sock"));
}

TEST(RunPlan, RefusesInOneLineWithStatusTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> kCases = {
      {{"--schedule", "active=1", "app"}, "--schedule: "},
      {{"--schedule", "active=0", "--step", "nvtx:x", "app"}, "--schedule: 'active=0': "},
      {{"--step", "x", "app"}, "--step: 'x': "},
      {{"--shedule=active=1", "app"}, "--shedule: "},
      {{"--shedule", "active=1", "app"}, "--shedule: "},
      {{"-x", "app"}, "-x: "},
      {{"--graph"}, "--graph: '': needs a value"},
      {{}, "run: no command"},
      {{"--"}, "run: no command"},
      {{"--graph", "node"}, "run: no command"},
      {{"--require", "memory", "app"}, "--require: 'memory': "},
      {{"--out", "", "app"}, "--out: '': empty"}};
  for (const auto& [args, expected] : kCases) {
    const RunPlan plan = Plan(args);
    EXPECT_EQ(plan.status, 2) << expected;
    EXPECT_EQ(plan.error.find(expected), 0U) << plan.error;
    EXPECT_EQ(std::count(plan.error.begin(), plan.error.end(), '\n'), 0);
  }
  EXPECT_EQ(Plan({"app"}, {"STEPAGENT_MAX_BYTES=-1"}).status, 2);
  for (const char* bad : {"../x", "latest", "-h"}) {
    const RunPlan plan = Plan({"app"}, {std::string("STEPAGENT_RUN=") + bad});
    EXPECT_EQ(plan.status, 2);
    EXPECT_TRUE(plan.error.starts_with(std::string("STEPAGENT_RUN: '") + bad + "': no name for a run"))
        << plan.error;
  }
  EXPECT_TRUE(Plan({"--help"}).wants_help);
}

TEST(ProgressLine, ShowsDoneOfTotal) {
  EXPECT_EQ(ProgressLine("writing", 1, 2, 3), "writing [###############...............] 1/2  3 s");
  EXPECT_EQ(ProgressLine("w", 5, 0, 0), "w [..............................] 0/0  0 s");
}

}  // namespace
}  // namespace stepagent::launch
