// The table as a whole: defaults, names, error lines, the environment, checks across settings.
#include "proto/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <vector>

namespace stepagent::proto {
namespace {

class Environment {
 public:
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

TEST(SettingsTable, HoldsTheContractsNamesAndDefaults) {
  const std::vector<std::array<const char*, 3>> kContract = {
      {"--schedule", "STEPAGENT_SCHEDULE", "none"},
      {"--step", "STEPAGENT_STEP", "none"},
      {"--step-extent", "STEPAGENT_STEP_EXTENT", "range"},
      {"--arm", "STEPAGENT_ARM", "demand"},
      {"--signal", "STEPAGENT_SIGNAL", "USR2"},
      {"--out", "STEPAGENT_OUT", "stepagent-traces"},
      {"--formats", "STEPAGENT_FORMATS", "chrome"},
      {"--activities", "STEPAGENT_ACTIVITIES", "kernel,memcpy,memset,launch,sync,nvtx,overhead"},
      {"--require", "STEPAGENT_REQUIRE", "none"},
      {"--graph", "STEPAGENT_GRAPH", "graph"},
      {"--stacks", "STEPAGENT_STACKS", "none"},
      {"--label", "STEPAGENT_LABELS", "none"},
      {"--redact", "STEPAGENT_REDACT", "none"},
      {"--ranks", "STEPAGENT_RANKS", "all"},
      {"--collector", "STEPAGENT_COLLECTOR", "auto"},
      {"--max-window", "STEPAGENT_MAX_WINDOW", "120s"},
      {"--max-records", "STEPAGENT_MAX_RECORDS", "50M"},
      {"--max-traces", "STEPAGENT_MAX_TRACES", "100"},
      {"--max-bytes", "STEPAGENT_MAX_BYTES", "2GiB"},
      {"--max-trace-bytes", "STEPAGENT_MAX_TRACE_BYTES", "384MiB"},
      {"--ring-memory", "STEPAGENT_RING_MEMORY", "256MiB"},
      {"--collector-memory", "STEPAGENT_COLLECTOR_MEMORY", "256MiB"},
      {"--arm-wait", "STEPAGENT_ARM_WAIT", "100ms"},
      {"--exit-wait", "STEPAGENT_EXIT_WAIT", "2s"},
      {"--log", "STEPAGENT_LOG", "warn"}};
  ASSERT_EQ(AllSettings().size(), kContract.size());
  const auto texts = SettingsText(DefaultSettings());
  for (size_t i = 0; i < kContract.size(); ++i) {
    EXPECT_STREQ(AllSettings()[i].flag, kContract[i][0]);
    EXPECT_STREQ(AllSettings()[i].variable, kContract[i][1]);
    EXPECT_EQ(texts.at(kContract[i][0] + 2), kContract[i][2]);
    if (*AllSettings()[i].fallback) {
      EXPECT_STREQ(AllSettings()[i].fallback, kContract[i][2]);
    }
  }
}

TEST(SettingsTable, DefaultsAreTheContracts) {
  const Settings s = DefaultSettings();
  EXPECT_FALSE(s.schedule);
  EXPECT_EQ(s.step.kind, StepSetting::Kind::kNone);
  EXPECT_EQ(s.arm, ArmMode::kUnset);
  EXPECT_EQ(s.signal_number, SIGUSR2);
  EXPECT_FALSE(s.signal_asked);
  EXPECT_EQ(s.formats, std::vector<std::string>{"chrome"});
  EXPECT_EQ(s.max_window_ns, 120'000'000'000U);
  EXPECT_EQ(s.max_records, 50'000'000U);
  EXPECT_EQ(s.max_traces, 100U);
  EXPECT_EQ(s.max_bytes, 2ULL << 30);
  EXPECT_EQ(s.arm_wait_ns, 100'000'000U);
  EXPECT_EQ(s.exit_wait_ns, 2'000'000'000U);
  EXPECT_TRUE(s.given.empty());
}

TEST(SettingsTable, EachCanonicalTextIsTakenBack) {
  Settings s = DefaultSettings();
  const std::pair<const char*, const char*> kValues[] = {{"schedule", "active=2,wait=3,repeat=0"},
                                                         {"step", R"(nvtx-glob:a*\@b@*)"},
                                                         {"step-extent", "period"},
                                                         {"arm", "cudaProfilerApi"},
                                                         {"signal", "RTMIN+3"},
                                                         {"out", "/var/x y"},
                                                         {"activities", "-sync"},
                                                         {"require", "kernel"},
                                                         {"graph", "node"},
                                                         {"label", R"(a=1\,2,b=\\)"},
                                                         {"ranks", "1,5-7"},
                                                         {"collector", "@name"},
                                                         {"max-window", "90ms"},
                                                         {"max-records", "1234"},
                                                         {"max-traces", "0"},
                                                         {"max-bytes", "64KiB"},
                                                         {"arm-wait", "0"},
                                                         {"exit-wait", "1m"},
                                                         {"log", "info:x"}};
  for (const auto& [name, value] : kValues) ASSERT_FALSE(ApplySetting(name, value, &s)) << name;
  const auto texts = SettingsText(s);
  Settings again = DefaultSettings();
  for (const auto& [name, text] : texts)
    ASSERT_FALSE(ApplySetting(name, text, &again)) << name << text;
  EXPECT_EQ(SettingsText(again), texts);
  EXPECT_EQ(texts.at("exit-wait"), "60s");
  EXPECT_EQ(texts.at("schedule"),
            "skip_first=0,wait=3,warmup=0,active=2,repeat=0,skip_first_wait=0");
}

TEST(SettingsTable, FindsByFlagAliasAndVariable) {
  EXPECT_STREQ(FindSetting("--cuda-graph-trace")->flag, "--graph");
  EXPECT_STREQ(FindSetting("-o")->flag, "--out");
  EXPECT_STREQ(FindSetting("STEPAGENT_MAX_BYTES")->flag, "--max-bytes");
  EXPECT_STREQ(FindSetting("label")->flag, "--label");
  EXPECT_EQ(FindSetting(""), nullptr);
  EXPECT_EQ(FindSetting("--"), nullptr);
  EXPECT_EQ(FindSetting("STEPAGENT_"), nullptr);
}

TEST(SettingError, IsOneShortLineThatNamesAll) {
  Settings s = DefaultSettings();
  auto error = ApplySetting("--graph", "kernel", &s);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->Line(), "--graph: 'kernel': not known; allowed: graph, node");
  for (const SettingSpec& spec : AllSettings()) {
    for (const std::string& value :
         {std::string(), std::string(1 << 20, 'x'), std::string("\n\r\x1b[2J\xff")}) {
      if (std::string_view(spec.flag) == "--out" && value.size() > 0 && value.size() < 100)
        continue;
      if (std::string_view(spec.flag) == "--collector" && value.size() > 0 && value.size() < 100)
        continue;
      error = ApplySetting(spec.variable, value, &s);
      ASSERT_TRUE(error) << spec.flag;
      const std::string line = error->Line();
      EXPECT_EQ(line.find(spec.variable), 0U);
      EXPECT_LT(line.size(), 400U) << line;
      EXPECT_TRUE(std::none_of(line.begin(), line.end(), [](unsigned char c) {
        return c < 32 || c == 127;
      })) << line;
    }
  }
  EXPECT_EQ(SettingsText(s), SettingsText(DefaultSettings()));
}

TEST(SettingError, UnknownNamesAreErrorsToo) {
  Settings s = DefaultSettings();
  EXPECT_EQ(ApplySetting("--shedule", "x", &s)->Line(), "--shedule: 'x': no such setting");
}

TEST(ApplyEnvironment, TakesOursAndOnlyOurs) {
  const Environment environment(
      {"PATH=/bin", "STEPAGENT_SCHEDULE=active=2,wait=1", "STEPAGENT_STEP=nvtx:s",
       "STEPAGENT_DISABLE=0", "STEPAGENT_RUNTIME_DIR=", "STEPAGENT_RUN=x",
       "STEPAGENT_RUN_MODE=whole", "STEPAGENT_SIM_CONFIG=", "STEPAGENT_LIB=/x",
       "STEPAGENT_SIGNAL=USR2", "STEPAGENT_NOISE", "MY_STEPAGENT_STEP=bad"});
  Settings s = DefaultSettings();
  std::vector<std::string> unknown;
  ASSERT_FALSE(ApplyEnvironment(environment.get(), &s, &unknown));
  EXPECT_TRUE(unknown.empty()) << unknown[0];
  EXPECT_EQ(s.schedule->active, 2U);
  EXPECT_EQ(s.step.name, "s");
  EXPECT_TRUE(s.signal_asked);
  EXPECT_EQ(s.given.size(), 3U);
}

TEST(ApplyEnvironment, NamesTheUnknown) {
  const Environment environment({"STEPAGENT_SHEDULE=active=2", "STEPAGENT_LABEL=a=b"});
  Settings s = DefaultSettings();
  std::vector<std::string> unknown;
  ASSERT_FALSE(ApplyEnvironment(environment.get(), &s, &unknown));
  EXPECT_EQ(unknown, (std::vector<std::string>{"STEPAGENT_SHEDULE", "STEPAGENT_LABEL"}));
}

TEST(ApplyEnvironment, ARunThatIsNoFoldersNameIsRefused) {
  const auto line_of = [](const std::string& value) {
    const Environment environment({"STEPAGENT_RUN=" + value});
    Settings s = DefaultSettings();
    const auto error = ApplyEnvironment(environment.get(), &s, nullptr);
    return error ? error->Line() : "";
  };
  for (const std::string& bad : {std::string("latest"), std::string("-h"), std::string("--"),
                                 std::string("../x"), std::string(".x"), std::string("a b"),
                                 std::string("x\ny"), std::string(65, 'x')})
    EXPECT_TRUE(line_of(bad).starts_with("STEPAGENT_RUN: '") &&
                line_of(bad).ends_with("': no name for a run; allowed: letters, digits, _ - and ., at "
                                       "most 64, not beginning with - or ., and not 'latest'"))
        << line_of(bad);
  for (const std::string& good : {std::string(""), std::string("latest-2"), std::string("my-run_1.b"),
                                  std::string(64, 'x')})
    EXPECT_EQ(line_of(good), "");
}

TEST(ApplyEnvironment, OneBadValueLeavesAllAsItWas) {
  for (const std::string& bad :
       {std::string("STEPAGENT_MAX_BYTES="), std::string("STEPAGENT_MAX_BYTES=-1"),
        std::string("STEPAGENT_MAX_BYTES=x"), "STEPAGENT_MAX_BYTES=" + std::string(1 << 20, '1'),
        std::string("STEPAGENT_MAX_BYTES=99999999999999999999")}) {
    const Environment environment({"STEPAGENT_STEP=nvtx:s", bad});
    Settings s = DefaultSettings();
    const auto error = ApplyEnvironment(environment.get(), &s, nullptr);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->setting, "STEPAGENT_MAX_BYTES");
    EXPECT_EQ(SettingsText(s), SettingsText(DefaultSettings()));
  }
  const Environment twice({"STEPAGENT_STEP=nvtx:s", "STEPAGENT_STEP=nvtx:t"});
  Settings s = DefaultSettings();
  EXPECT_EQ(ApplyEnvironment(twice.get(), &s, nullptr)->why, "the variable is there twice");
  EXPECT_FALSE(ApplyEnvironment(nullptr, &s, nullptr));
}

TEST(CheckTogether, AScheduleNeedsAStepSource) {
  Settings s = DefaultSettings();
  EXPECT_FALSE(CheckTogether(s));
  ASSERT_FALSE(ApplySetting("schedule", "active=1", &s));
  EXPECT_EQ(CheckTogether(s)->setting, "--schedule");
  ASSERT_FALSE(ApplySetting("step", "none", &s));
  EXPECT_TRUE(CheckTogether(s));
  ASSERT_FALSE(ApplySetting("step", "signal", &s));
  EXPECT_FALSE(CheckTogether(s));
  ASSERT_FALSE(ApplySetting("signal", "none", &s));
  EXPECT_EQ(CheckTogether(s)->setting, "--step");
}

TEST(CheckTogether, WhatIsRequiredMustBeRecorded) {
  Settings s = DefaultSettings();
  ASSERT_FALSE(ApplySetting("require", "kernel,memory", &s));
  EXPECT_EQ(CheckTogether(s)->value, "memory");
  ASSERT_FALSE(ApplySetting("activities", "+memory", &s));
  EXPECT_FALSE(CheckTogether(s));
}

TEST(DefaultSchedule, ComesWithAStepSourceAlone) {
  Settings s = DefaultSettings();
  EXPECT_FALSE(ApplyDefaultSchedule(&s));
  EXPECT_EQ(EffectiveArm(s), ArmMode::kDemand);
  ASSERT_FALSE(ApplySetting("step", "nvtx:s", &s));
  EXPECT_TRUE(ApplyDefaultSchedule(&s));
  EXPECT_EQ(s.schedule->Text(),
            "skip_first=10,wait=5,warmup=2,active=3,repeat=1,skip_first_wait=0");
  EXPECT_EQ(EffectiveArm(s), ArmMode::kStart);
  EXPECT_FALSE(ApplyDefaultSchedule(&s));
  ASSERT_FALSE(ApplySetting("arm", "demand", &s));
  EXPECT_EQ(EffectiveArm(s), ArmMode::kDemand);
}

TEST(SettingsText, IsAlwaysUtf8) {
  Settings s = DefaultSettings();
  ASSERT_FALSE(ApplySetting("step", "nvtx:Sch\xf6n", &s));
  EXPECT_EQ(s.step.name, "Sch\xf6n");
  EXPECT_EQ(SettingsText(s).at("step"), "nvtx:Sch\xEF\xBF\xBDn");
}

TEST(Disable, AnythingButNoMeansYes) {
  for (const char* off : {"", "0", "off", "no", "false"}) EXPECT_FALSE(IsDisabledValue(off));
  for (const char* on : {"1", "yes", "2", "true"}) EXPECT_TRUE(IsDisabledValue(on));
}

}  // namespace
}  // namespace stepagent::proto
