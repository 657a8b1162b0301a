// report.html: what is in the file, before any browser opens it.
#include "collector/writers/html.h"

#include "collector/cli/report.h"
#include "collector/writers/html_choice.h"
#include "collector/writers/html_text.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::testing {
namespace {

using Json = nlohmann::ordered_json;
using writers::Bundle;
using writers::Bundler;
using writers::LongestChoice;

std::string Page(const model::Cycle& cycle, uint64_t limit = writers::HtmlWriter::kDrawnLimit) {
  Folder folder;
  const auto result =
      writers::HtmlWriter(limit).Write(cycle, {folder.path(), folder.path(), "stem.0", {}});
  EXPECT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.files.at(0).path, folder / "report.html");
  return ReadFile(folder / "report.html");
}

std::string Between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from), end = text.find(to, begin);
  EXPECT_NE(begin, std::string::npos) << from;
  EXPECT_NE(end, std::string::npos) << to;
  return text.substr(begin + from.size(), end - begin - from.size());
}

Json Data(const std::string& page) {
  return Json::parse(Between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(Html, EveryCycleIsAPageWithItsData) {
  for (const std::string_view name : GoldenNames()) {
    const model::Cycle cycle = GoldenCycle(name);
    const std::string page = Page(cycle);
    const Json data = Data(page);
    EXPECT_EQ(data.at("schema"), "stepagent.page/1") << name;
    EXPECT_EQ(data.at("trace").at("calls").size(), cycle.calls.size() * 8) << name;
    EXPECT_EQ(data.at("trace").at("ranges").size(), cycle.ranges.size() * 7) << name;
    EXPECT_EQ(data.at("trace").at("steps").size(), cycle.steps.size() * 5) << name;
    EXPECT_EQ(data.at("trace").at("drawn"), data.at("trace").at("items")) << name;
    EXPECT_EQ(Page(cycle), page) << name;  // the same bytes
  }
}

TEST(Html, NamesCannotLeaveTheirPlace) {
  const std::string attack = "</script><img src=x onerror=\"alert(1)\"><!--<script>";
  CycleMaker m;
  m.AddDevice(0);
  m.cycle.session.exe = m.cycle.session.title = m.cycle.session.host = attack;
  m.cycle.session.labels = {{attack, attack}};
  m.cycle.devices[0].name = attack;
  m.cycle.notes.push_back({attack, attack});
  const uint32_t thread = m.Thread(4242, attack);
  m.Step(0, 1000, 9000, thread);
  m.Range(attack, thread, 1100, 8000, attack);
  m.cycle.marks.push_back({1200, m.Text(attack), m.Text(attack), 0, 0, thread, 0});
  const int32_t call = m.Call(attack, model::CallClass::kLaunch, thread, 2000, 2500, 1);
  m.Kernel(m.Shape(attack), m.Lane(0, 1, 7), 3000, 4000, call);
  const std::string page = Page(m.Finish());
  EXPECT_EQ(Count(page, "<img"), 0U);
  EXPECT_EQ(Count(page, "<!--"), 0U);
  EXPECT_EQ(Count(page, "<script"), 2U);  // the data and ours
  EXPECT_EQ(Count(page, "</script"), 2U);
  EXPECT_EQ(Count(Between(page, "<title>", "</title>"), "<"), 0U);
  const Json data = Data(page);
  const auto& texts = data.at("trace").at("texts");
  EXPECT_NE(std::find(texts.begin(), texts.end(), Json(attack)), texts.end());
}

TEST(Html, ThePolicyNamesExactlyOurOwnParts) {
  const std::string page = Page(GoldenCycle("train"));
  const std::string policy = Between(page, "Content-Security-Policy\" content=\"", "\">");
  EXPECT_TRUE(policy.starts_with("default-src 'none';")) << policy;
  EXPECT_EQ(Count(policy, "unsafe"), 0U);
  EXPECT_EQ(Count(policy, "http"), 0U);
  const std::string script = Between(page, "<script>", "</script>");
  const std::string style = Between(page, "<style>", "</style>");
  EXPECT_NE(policy.find("script-src " + writers::PolicyHash(script)), std::string::npos);
  EXPECT_NE(policy.find("style-src " + writers::PolicyHash(style)), std::string::npos);
  // No address of anything outside in the whole page.
  EXPECT_EQ(Count(page, "://"), 0U);
}

TEST(Html, PolicyHashIsBase64OfSha256) {
  // echo -n '' | openssl dgst -sha256 -binary | base64
  EXPECT_EQ(writers::PolicyHash(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
  EXPECT_EQ(writers::PolicyHash("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
}

TEST(Html, LongNamesKeepTheirEndsAndStayDifferent) {
  const std::string a(70'000, 'k');
  const std::string b = a.substr(1) + "z";
  EXPECT_EQ(writers::ShortenedName("short"), "short");
  EXPECT_LT(writers::ShortenedName(a).size(), writers::kNameBytes);
  EXPECT_NE(writers::ShortenedName(a), writers::ShortenedName(b));
  const std::string middle = a.substr(0, 35'000) + "x" + a.substr(35'001);
  EXPECT_NE(writers::ShortenedName(a), writers::ShortenedName(middle));
  // A cut never falls into a character.
  std::string wide;
  for (int i = 0; i < 5000; ++i) wide += "\xe2\x82\xac";
  EXPECT_EQ(writers::ShortenedName(wide).find("\xef\xbf\xbd"), std::string::npos);
}

// 300 kernels of 1 us and 20 of 100 us on one stream, in a page of 50.
model::Cycle ManyShort() {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7);
  const uint32_t small = m.Shape("small"), large = m.Shape("large");
  m.Step(0, 0, 10'000'000, thread);
  int64_t at = 1000;
  for (int i = 0; i < 320; ++i) {
    const int64_t length = i % 16 == 0 ? 100'000 : 1000;
    m.Kernel(i % 16 == 0 ? large : small, lane, at, at + length, -1);
    at += length + 500;
  }
  return m.Finish();
}

TEST(Html, WhatIsNotDrawnSinglyIsDrawnTogetherAndSaid) {
  const model::Cycle cycle = ManyShort();
  const Json trace = Data(Page(cycle, 50)).at("trace");
  EXPECT_EQ(trace.at("items"), 320);
  EXPECT_EQ(trace.at("drawn"), 50);
  const auto& kernels = trace.at("kernels");
  ASSERT_EQ(kernels.size(), 50U * 7);
  size_t large = 0;
  for (size_t at = 0; at < kernels.size(); at += 7) large += kernels[at + 2] == 100'000;
  EXPECT_EQ(large, 20U);
  uint64_t together = 0;
  int64_t covered = 0;
  const auto& bundles = trace.at("bundles");
  for (size_t at = 0; at < bundles.size(); at += 6) {
    together += bundles[at + 4].get<uint64_t>(), covered += bundles[at + 5].get<int64_t>();
    EXPECT_LE(bundles[at + 5], bundles[at + 3]);
  }
  EXPECT_EQ(together, 270U);
  EXPECT_EQ(covered, 270'000);
  // The busy row does not depend on what is drawn.
  EXPECT_EQ(trace.at("busy"), Data(Page(cycle)).at("trace").at("busy"));
}

TEST(Html, GapsAreThoseOfTheWindow) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python"), lane = m.Lane(0, 1, 7), k = m.Shape("k");
  m.Step(0, 10'000, 20'000, thread);
  m.Kernel(k, lane, 9000, 11'000, -1);    // begins before the window
  m.Kernel(k, lane, 13'000, 14'000, -1);  // gap of 2000 before it
  m.Kernel(k, lane, 13'500, 15'000, -1);
  m.Kernel(k, lane, 24'000, 25'000, -1);  // after the window: the gap ends with the window
  const Json busy = Data(Page(m.Finish())).at("trace").at("busy").at(0);
  EXPECT_EQ(busy.at("in_window"), 2);
  EXPECT_EQ(busy.at("longest"), Json::parse("[5000,5000,1000,2000]"));
  EXPECT_EQ(busy.at("parts"), Json::parse("[-1000,2000,4000,2000,11000,1000]"));
}

TEST(Html, WithoutDataItSaysWhy) {
  const Json data = Data(Page(GoldenCycle("host_only")));
  EXPECT_EQ(data.at("summary").at("gpu").at("status"), "unavailable");
  EXPECT_EQ(data.at("trace").at("busy").size(), 0U);
  EXPECT_EQ(data.at("manifest").at("gpu").at("reason"), "no driver library in the process");
  const std::string text = Between(Page(GoldenCycle("host_only")), "<pre>", "</pre>");
  EXPECT_NE(text.find("HOST ONLY"), std::string::npos);
}

int Report(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return cli::ReportMain(static_cast<int>(argv.size()), argv.data());
}

TEST(ReportPage, IsWrittenOnceAndForOneSession) {
  Folder folder;
  const auto chrome = writers::MakeWriter("chrome")->Write(
      GoldenCycle("train"), {folder.path(), folder.path(), "stem.0", {}});
  ASSERT_TRUE(chrome.ok);
  const std::string trace = chrome.files[0].path, page = folder / "x.html";
  EXPECT_EQ(Report({trace, "--html", page}), 0);
  const std::string written = ReadFile(page);
  EXPECT_EQ(written.substr(0, 15), "<!doctype html>");
  EXPECT_EQ(Data(written).at("summary").at("steps").at("count"), 2);
  EXPECT_EQ(Report({trace, "--html", page}), 2);
  EXPECT_EQ(ReadFile(page), written);
  EXPECT_EQ(Report({trace, trace, "--html", folder / "y.html"}), 2);
  EXPECT_EQ(Report({folder / "absent", "--html", folder / "y.html"}), 3);
  std::filesystem::create_directories(folder / "run/sessions/a");
  std::filesystem::create_directories(folder / "run/sessions/b");
  EXPECT_EQ(Report({folder / "run", "--html", folder / "y.html"}), 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "y.html"));
}

// What chooses among the printed tables has no meaning for a page.
TEST(ReportPage, OptionsOfThePrintedReportAreRefused) {
  Folder folder;
  const auto chrome = writers::MakeWriter("chrome")->Write(
      GoldenCycle("train"), {folder.path(), folder.path(), "stem.0", {}});
  ASSERT_TRUE(chrome.ok);
  const std::string trace = chrome.files[0].path, page = folder / "x.html";
  const std::vector<std::vector<std::string>> printed = {
      {"--by", "step"}, {"--top", "3"}, {"--sort", "total"}, {"--json"}};
  for (const std::vector<std::string>& words : printed) {
    std::vector<std::string> all = {trace, "--html", page};
    all.insert(all.end(), words.begin(), words.end());
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Report(all), 2) << words[0];
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(words[0] + " is for what is printed"), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_FALSE(std::filesystem::exists(page));
  }
}

TEST(LongestChoice, TakesTheLongestAndSharesTheBorder) {
  LongestChoice choice(10);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 1000; ++i) lengths.push_back(i % 250 == 7 ? 5'000'000 : 700);
  for (const int64_t length : lengths) choice.Count(length);
  choice.Decide();
  EXPECT_EQ(choice.counted(), 1000U);
  EXPECT_EQ(choice.taken(), 10U);
  size_t taken = 0, long_ones = 0, in_first_half = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (!choice.Takes(lengths[i])) continue;
    ++taken, long_ones += lengths[i] > 700, in_first_half += lengths[i] == 700 && i < 500;
  }
  EXPECT_EQ(taken, 10U);
  EXPECT_EQ(long_ones, 4U);
  EXPECT_EQ(in_first_half, 3U);  // of the six short ones: evenly over the sequence
}

TEST(LongestChoice, TakesNeverMoreNorLessThanItsLimit) {
  for (const uint64_t limit : {0U, 1U, 5U, 99U, 100U, 101U}) {
    LongestChoice choice(limit);
    const auto length = [](int64_t i) { return i * i * i * 1'000'003 % 7919 * (i % 5); };
    for (int64_t i = 0; i < 100; ++i) choice.Count(length(i));
    choice.Decide();
    uint64_t taken = 0;
    for (int64_t i = 0; i < 100; ++i) taken += choice.Takes(length(i));
    EXPECT_EQ(taken, std::min<uint64_t>(limit, 100)) << limit;
    EXPECT_EQ(choice.taken(), taken);
  }
}

TEST(Bundler, KeepsRowsAndBinsApart) {
  std::vector<Bundle> out;
  Bundler bundler(2, 0, 100, [&](const Bundle& b) { out.push_back(b); });
  bundler.Add(0, 10, 20);
  bundler.Add(1, 12, 14);
  bundler.Add(0, 15, 30);  // 10 more
  bundler.Add(0, 40, 45);
  bundler.Add(0, 110, 120);
  bundler.Add(7, 110, 120);  // no such row
  bundler.Finish();
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[0].count, 3U);
  EXPECT_EQ(out[0].covered_ns, 25);
  EXPECT_EQ(out[0].end_ns, 45);
  EXPECT_EQ(out[1].begin_ns, 110);
  EXPECT_EQ(out[2].row, 1U);
}

}  // namespace
}  // namespace stepagent::testing
