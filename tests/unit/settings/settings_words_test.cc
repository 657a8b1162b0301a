// The parsers of single values: durations, counts, signals, schedules, step sources, lists.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "proto/settings.h"
#include "proto/shell_word.h"

namespace stepagent::proto {
namespace {

std::string WhyOf(std::string_view setting, std::string_view value) {
  Settings settings = DefaultSettings();
  const auto error = ApplySetting(setting, value, &settings);
  return error ? error->why : "accepted";
}

TEST(ParseDuration, TakesUnitsAndFractionsThatComeOutWhole) {
  EXPECT_EQ(ParseDuration("200ms"), 200'000'000);
  EXPECT_EQ(ParseDuration("5s"), 5'000'000'000);
  EXPECT_EQ(ParseDuration("2m"), 120'000'000'000);
  EXPECT_EQ(ParseDuration("1h"), 3'600'000'000'000);
  EXPECT_EQ(ParseDuration("100us"), 100'000);
  EXPECT_EQ(ParseDuration("7ns"), 7);
  EXPECT_EQ(ParseDuration("0"), 0);
  EXPECT_EQ(ParseDuration("3"), 3'000'000'000);
  EXPECT_EQ(ParseDuration("0.5"), 500'000'000);
  EXPECT_EQ(ParseDuration("1.25ms"), 1'250'000);
  EXPECT_EQ(ParseDuration("1000000000s"), 1'000'000'000'000'000'000);
}

TEST(ParseDuration, RefusesWhatIsNoDuration) {
  for (const char* bad : {"", "s", "-1s", "+1s", " 1s", "1s ", "1 s", "1S", "1sec", "1.s", ".5s",
                          "0.5ns", "1.2345678901s", "0x10", "1e3", "1000000001s", "1,5s",
                          "18446744073709551616", "99999999999999999999h"})
    EXPECT_EQ(ParseDuration(bad), std::nullopt) << bad;
}

TEST(ParseCount, TakesDecimalAndBinaryUnits) {
  EXPECT_EQ(ParseCount("50M"), 50'000'000);
  EXPECT_EQ(ParseCount("2GiB"), 2ULL << 30);
  EXPECT_EQ(ParseCount("64KiB"), 65536);
  EXPECT_EQ(ParseCount("1000"), 1000);
  EXPECT_EQ(ParseCount("1.5k"), 1500);
  EXPECT_EQ(ParseCount("0"), 0);
  EXPECT_EQ(ParseCount("500MB"), 500'000'000);
  EXPECT_EQ(ParseCount("9223372036854775807"), INT64_MAX);
  for (const char* bad :
       {"", "-1", "1.5", "9223372036854775808", "10000000000G", "1GIB", "one", "1_000"})
    EXPECT_EQ(ParseCount(bad), std::nullopt) << bad;
}

TEST(ParseSignal, TakesNamesAndNumbersThatCanBeUsed) {
  EXPECT_EQ(ParseSignal("USR2"), SIGUSR2);
  EXPECT_EQ(ParseSignal("SIGUSR2"), SIGUSR2);
  EXPECT_EQ(ParseSignal("12"), 12);
  EXPECT_EQ(ParseSignal("none"), 0);
  EXPECT_EQ(ParseSignal("RTMIN+10"), SIGRTMIN + 10);
  EXPECT_EQ(ParseSignal("SIGRTMIN"), SIGRTMIN);
  EXPECT_EQ(ParseSignal("RTMAX-1"), SIGRTMAX - 1);
  EXPECT_EQ(ParseSignal("RTMAX"), SIGRTMAX);
}

TEST(ParseSignal, RefusesFaultsAndTheUncatchable) {
  for (const char* bad : {"",        "0",      "-1",     "65",   "KILL",    "9",
                          "STOP",    "19",     "SEGV",   "11",   "CHLD",    "17",
                          "32",      "33",     "usr2",   "SIG",  "RTMIN-1", "RTMIN+99",
                          "RTMAX+1", "RTMIN+", "RTMINx", "ABRT", "TRAP",    "99999999999999999999"})
    EXPECT_EQ(ParseSignal(bad), std::nullopt) << bad;
}

TEST(ParseSchedule, TakesKeysInAnyOrder) {
  std::string why;
  const auto s =
      ParseSchedule("repeat=2,active=3,warmup=1,wait=1,skip_first_wait=1,skip_first=7", &why);
  ASSERT_TRUE(s) << why;
  EXPECT_EQ(s->skip_first, 7U);
  EXPECT_EQ(s->wait, 1U);
  EXPECT_EQ(s->warmup, 1U);
  EXPECT_EQ(s->active, 3U);
  EXPECT_EQ(s->repeat, 2U);
  EXPECT_TRUE(s->skip_first_wait);
  EXPECT_EQ(s->Text(), "skip_first=7,wait=1,warmup=1,active=3,repeat=2,skip_first_wait=1");
}

TEST(ParseSchedule, WhatIsLeftOutIsZero) {
  std::string why;
  const auto s = ParseSchedule("active=1", &why);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->Text(), "skip_first=0,wait=0,warmup=0,active=1,repeat=0,skip_first_wait=0");
}

TEST(ParseSchedule, TakesNumbersThatMeanNever) {
  std::string why;
  const auto s =
      ParseSchedule("skip_first=1000000000000000,wait=2000000000,active=1,repeat=1000000", &why);
  ASSERT_TRUE(s) << why;
  EXPECT_EQ(s->wait, 2'000'000'000U);
  EXPECT_FALSE(ParseSchedule("skip_first=1000000000000001,active=1", &why));
  EXPECT_FALSE(ParseSchedule("active=1,repeat=1000001", &why));
}

TEST(ParseSchedule, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {"wait=1", "active is missing"},
      {"active=0", "active must be at least 1"},
      {"active=-1", "active must be a whole number from 0 to 1000000000000"},
      {"active=1,wait=-1", "wait must be a whole number from 0 to 1000000000000"},
      {"active=1,wait=1.5", "wait must be a whole number from 0 to 1000000000000"},
      {"active=1,wait=", "wait must be a whole number from 0 to 1000000000000"},
      {"active=1,wait= 1", "wait must be a whole number from 0 to 1000000000000"},
      {"active=1,wait=1000000000001", "wait must be a whole number from 0 to 1000000000000"},
      {"active=99999999999999999999999", "active must be a whole number from 0 to 1000000000000"},
      {"active=1,active=1", "active is given twice"},
      {"active=1,skip_first_wait=2", "skip_first_wait must be a whole number from 0 to 1"},
      {"active=1,skip_first_wait=1,skip_first_wait=1", "skip_first_wait is given twice"},
      {"active=1,cycles=2", "'cycles' is not a key"},
      {"Active=1", "'Active' is not a key"},
      {"active=1,", "an empty entry"},
      {",active=1", "an empty entry"},
      {"active", "active has no number"},
      {"=1", "an empty entry"},
      {"active=1 wait=1", "active must be a whole number from 0 to 1000000000000"}};
  for (const auto& [value, expected] : kCases)
    EXPECT_EQ(WhyOf("--schedule", value), expected) << value;
}

TEST(ParseStep, TakesEverySource) {
  std::string why;
  auto step = ParseStep("nvtx:train step", &why);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->kind, StepSetting::Kind::kNvtx);
  EXPECT_EQ(step->name, "train step");
  EXPECT_EQ(step->domain, "");
  EXPECT_FALSE(step->any_domain);
  step = ParseStep("nvtx-glob:ProfilerStep#*@torch", &why);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->kind, StepSetting::Kind::kNvtxGlob);
  EXPECT_EQ(step->name, "ProfilerStep#*");
  EXPECT_EQ(step->domain, "torch");
  step = ParseStep("every:1.5s", &why);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->every_ns, 1'500'000'000U);
  EXPECT_EQ(ParseStep("signal", &why)->kind, StepSetting::Kind::kSignal);
  EXPECT_EQ(ParseStep("none", &why)->kind, StepSetting::Kind::kNone);
}

TEST(ParseStep, EscapesAtAndBackslash) {
  std::string why;
  auto step = ParseStep(R"(nvtx:a\@b\\c@d\@e\\)", &why);
  ASSERT_TRUE(step) << why;
  EXPECT_EQ(step->name, R"(a@b\c)");
  EXPECT_EQ(step->domain, R"(d@e\)");
  EXPECT_EQ(step->Text(), R"(nvtx:a\@b\\c@d\@e\\)");
  step = ParseStep("nvtx:a@*", &why);
  ASSERT_TRUE(step);
  EXPECT_TRUE(step->any_domain);
  EXPECT_EQ(step->Text(), "nvtx:a@*");
  step = ParseStep(R"(nvtx:a\@*)", &why);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->name, "a@*");
  EXPECT_FALSE(step->any_domain);
  EXPECT_EQ(step->Text(), R"(nvtx:a\@*)");
  EXPECT_EQ(ParseStep("nvtx:a@*b", &why)->domain, "*b");
  EXPECT_EQ(ParseStep("nvtx::@::", &why)->name, ":");
}

TEST(ParseStep, SaysWhatIsWrong) {
  const std::pair<std::string, const char*> kCases[] = {
      {"train_step", "no such step source"},
      {"NVTX:x", "no such step source"},
      {"signal ", "no such step source"},
      {"nvtx:", "the name is empty"},
      {"nvtx:@d", "the name is empty"},
      {"nvtx-glob:", "the name is empty"},
      {"nvtx:a@", "the domain after @ is empty"},
      {"nvtx:a@b@c", "a second @ (write \\@ for one in a name)"},
      {"nvtx:a\\n", "\\ escapes only @ and \\"},
      {"nvtx:a\\", "\\ escapes only @ and \\"},
      {"nvtx:a@b\\", "\\ escapes only @ and \\"},
      {"every:", "no duration after every:"},
      {"every:-1s", "no duration after every:"},
      {"every:0", "shorter than 1ms"},
      {"every:999us", "shorter than 1ms"},
      {"nvtx:" + std::string(4097, 'x'), "the name is longer than 4096 bytes"},
      {"nvtx:a@" + std::string(4097, 'x'), "the domain is longer than 4096 bytes"}};
  for (const auto& [value, expected] : kCases) EXPECT_EQ(WhyOf("--step", value), expected) << value;
  EXPECT_EQ(WhyOf("--step", "nvtx:" + std::string(4096, 'x')), "accepted");
}

uint32_t ActivitiesOf(std::string_view value) {
  Settings settings = DefaultSettings();
  EXPECT_FALSE(ApplySetting("--activities", value, &settings)) << value;
  return settings.activities;
}

TEST(Activities, NamesReplaceAndSignsChangeTheDefault) {
  const uint32_t all_but_memory = DefaultSettings().activities;
  EXPECT_EQ(all_but_memory, 0b1'0111'1110U);
  EXPECT_EQ(ActivitiesOf("kernel,nvtx"), ActivityBit(1) | ActivityBit(6));
  EXPECT_EQ(ActivitiesOf("+memory"), all_but_memory | ActivityBit(7));
  EXPECT_EQ(ActivitiesOf("-sync,+memory"), (all_but_memory | ActivityBit(7)) & ~ActivityBit(5));
  EXPECT_EQ(ActivitiesOf("none"), 0U);
}

TEST(Activities, RefusesMixturesRepeatsAndStrangers) {
  EXPECT_EQ(WhyOf("--activities", "kernel,+sync"), "names and +x,-y cannot be mixed");
  EXPECT_EQ(WhyOf("--activities", "+kernel,sync"), "names and +x,-y cannot be mixed");
  EXPECT_EQ(WhyOf("--activities", "kernel,kernel"), "'kernel' is given twice");
  EXPECT_EQ(WhyOf("--activities", "+kernel,-kernel"), "'kernel' is given twice");
  EXPECT_EQ(WhyOf("--activities", "kernels"), "'kernels' is not known");
  EXPECT_EQ(WhyOf("--activities", "kernel,"), "an empty entry");
  EXPECT_EQ(WhyOf("--activities", "none,kernel"), "'none' is not known");
  EXPECT_EQ(WhyOf("--activities", "+"), "an empty entry");
  EXPECT_EQ(WhyOf("--require", "+kernel"), "'+kernel' is not known");
}

TEST(Ranks, TakesListsAndRanges) {
  Settings settings = DefaultSettings();
  EXPECT_FALSE(settings.ranks);
  ASSERT_FALSE(ApplySetting("--ranks", "8-10,3,0", &settings));
  EXPECT_EQ(*settings.ranks, (std::vector<uint32_t>{0, 3, 8, 9, 10}));
  EXPECT_EQ(SettingsText(settings).at("ranks"), "0,3,8-10");
  ASSERT_FALSE(ApplySetting("--ranks", "all", &settings));
  EXPECT_FALSE(settings.ranks);
  for (const char* bad : {"-1", "1-", "3-1", "a", "1,,2", "1,1", "0-3,2", "2147483648",
                          "0-2147483647", "0-65536", "0-65535,65536", "1 ,2"})
    EXPECT_NE(WhyOf("--ranks", bad), "accepted") << bad;
  EXPECT_EQ(WhyOf("--ranks", "0-65535"), "accepted");
}

TEST(Labels, MergeAndEscape) {
  Settings settings = DefaultSettings();
  ASSERT_FALSE(ApplySetting("STEPAGENT_LABELS", "batch=64,model=a=b", &settings));
  ASSERT_FALSE(ApplySetting("--label", R"(note=x\,y\\z)", &settings));
  ASSERT_FALSE(ApplySetting("--label", "batch=128", &settings));
  EXPECT_EQ(settings.labels.at("batch"), "128");
  EXPECT_EQ(settings.labels.at("model"), "a=b");
  EXPECT_EQ(settings.labels.at("note"), R"(x,y\z)");
  EXPECT_EQ(settings.given.at("label"), R"(batch=128,model=a=b,note=x\,y\\z)");
}

TEST(Labels, RefusesWhatIsNoPair) {
  EXPECT_EQ(WhyOf("--label", "x"), "'x' is not K=V");
  EXPECT_EQ(WhyOf("--label", "=x"), "'=x' is not K=V");
  EXPECT_EQ(WhyOf("--label", "a=1,"), "'' is not K=V");
  EXPECT_EQ(WhyOf("--label", "a=1,a=2"), "'a' is given twice");
  EXPECT_EQ(WhyOf("--label", "a=\\n"), "\\ escapes only , and \\");
  EXPECT_EQ(WhyOf("--label", "a=\n"), "'a=?' holds control bytes or is not UTF-8");
  EXPECT_EQ(WhyOf("--label", "a=\xff"), "'a=?' holds control bytes or is not UTF-8");
  EXPECT_EQ(WhyOf("--label", "samples_per_step=0"),
            "samples_per_step must be a whole number above 0");
  EXPECT_EQ(WhyOf("--label", "samples_per_step=32"), "accepted");
  EXPECT_EQ(WhyOf("--label", "a="), "accepted");
}

TEST(Words, AreCheckedByName) {
  EXPECT_EQ(WhyOf("--formats", "chrome"), "accepted");
  EXPECT_EQ(WhyOf("--formats", "chrome,chrome"), "'chrome' is given twice");
  EXPECT_EQ(WhyOf("--formats", "json"), "'json' is not known");
  EXPECT_EQ(WhyOf("--formats", "chrome,perfetto,sqlite,html,folded,pprof"), "accepted");
  EXPECT_EQ(WhyOf("--stacks", "native"), "accepted");
  EXPECT_EQ(WhyOf("--stacks", "python"), "not known");
  EXPECT_EQ(WhyOf("--redact", "paths,faces"), "'faces' is not known");
  EXPECT_EQ(WhyOf("--step-extent", "Range"), "not known");
  EXPECT_EQ(WhyOf("--arm", "now"), "not known");
  EXPECT_EQ(WhyOf("--graph", "nodes"), "not known");
  EXPECT_EQ(WhyOf("--cuda-graph-trace", "node"), "accepted");
  EXPECT_EQ(WhyOf("--collector", "/" + std::string(107, 'x')), "too long for a socket");
  EXPECT_EQ(WhyOf("--collector", "/" + std::string(106, 'x')), "accepted");
}

TEST(Log, TakesALevelAndAFile) {
  Settings settings = DefaultSettings();
  ASSERT_FALSE(ApplySetting("--log", "debug:/var/tmp/a:b", &settings));
  EXPECT_EQ(settings.log_level, LogLevel::kDebug);
  EXPECT_EQ(settings.log_file, "/var/tmp/a:b");
  EXPECT_EQ(WhyOf("--log", "loud"), "'loud' is no level");
  EXPECT_EQ(WhyOf("--log", "info:"), "no file after the colon");
  EXPECT_EQ(WhyOf("--log", ":x"), "'' is no level");
}

TEST(SignalText, NamesWhatEndsProcessesToo) {
  EXPECT_EQ(SignalText(SIGSEGV), "SEGV");
  EXPECT_EQ(SignalText(SIGKILL), "KILL");
  EXPECT_EQ(SignalText(SIGRTMIN + 1), "RTMIN+1");
  EXPECT_EQ(SignalText(127), "127");
  EXPECT_FALSE(ParseSignal("SEGV"));
}

TEST(ShellWord, QuotesWhatNeedsIt) {
  EXPECT_EQ(ShellWord("/a/b-c.d_e,f"), "/a/b-c.d_e,f");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("a'b"), "'a'\\''b'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("$x\\@"), "'$x\\@'");
}

}  // namespace
}  // namespace stepagent::proto
