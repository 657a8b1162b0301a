// What each kind of --redact hides, and what it leaves.
#include "agent/drain/redactor.h"

#include <gtest/gtest.h>

#include <regex>

#include "agent/core/name_table.h"
#include "agent/drain/batch_builder.h"
#include "agent/drain/cycle_report.h"
#include "agent/drain/session_messages.h"
#include "batch.pb.h"

namespace stepagent::drain {
namespace {

constexpr proto::HashKey kKey{1, 2};
constexpr uint32_t kAll =
    proto::kRedactPaths | proto::kRedactNames | proto::kRedactArgs | proto::kRedactHosts;

bool Looks(const std::string& text, const char* pattern) {
  return std::regex_match(text, std::regex(pattern));
}

TEST(KeyedHash, GivesTheReferenceValues) {
  // The published vectors: key 00 01 … 0f, input 00 01 … of each length.
  const proto::HashKey key{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
  std::string input;
  for (char c = 0; c < 15; ++c) input += c;
  EXPECT_EQ(proto::KeyedHash(key, ""), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(proto::KeyedHash(key, std::string_view(input).substr(0, 8)), 0x93f5f5799a932462U);
  EXPECT_EQ(proto::KeyedHash(key, input), 0xa129ca6149be45e5U);
}

TEST(KeyedHash, TheKeyDecides) {
  EXPECT_NE(proto::KeyedHex({1, 2}, "name"), proto::KeyedHex({1, 3}, "name"));
  EXPECT_EQ(proto::KeyedHex({1, 2}, "name").size(), 16U);
  EXPECT_EQ(proto::KeyFromText("a").low, proto::KeyFromText("a").low);
  EXPECT_NE(proto::KeyFromText("a").low, proto::KeyFromText("b").low);
  EXPECT_NE(proto::KeyFromText("").high, 0U);
}

TEST(Redaction, BitsAndWords) {
  EXPECT_EQ(proto::RedactBits({"hosts", "paths"}), proto::kRedactHosts | proto::kRedactPaths);
  EXPECT_EQ(proto::RedactWords(kAll),
            (std::vector<std::string>{"paths", "names", "args", "hosts"}));
  EXPECT_TRUE(proto::IsRedactedHost("host-0123456789abcdef"));
  EXPECT_FALSE(proto::IsRedactedHost("host-0123456789abcdeg"));
  EXPECT_FALSE(proto::IsRedactedHost("host-1"));
}

TEST(Redaction, PathsInSentences) {
  const auto without = [](const char* text) { return proto::WithoutPaths(text, "X"); };
  EXPECT_EQ(without("cannot open /a/b c/d.so: no such file"), "cannot open X: no such file");
  EXPECT_EQ(without("'/a/b' is in the way"), "'X' is in the way");
  EXPECT_EQ(without("found in ./x/y."), "found in X.");
  EXPECT_EQ(without("/a: cannot create: No space"), "X: cannot create: No space");
  EXPECT_EQ(without("no driver"), "no driver");
  EXPECT_EQ(without("/"), "X");
}

TEST(Redactor, OffLeavesEverything) {
  Redactor redactor(0, kKey);
  EXPECT_EQ(redactor.Range("a"), "a");
  EXPECT_EQ(redactor.Kernel("_Z1fv"), "_Z1fv");
  EXPECT_EQ(redactor.Sentence("at /a"), "at /a");
  EXPECT_EQ(redactor.Free("x"), "x");
}

TEST(Redactor, EachKindHidesItsOwn) {
  Redactor names(proto::kRedactNames, kKey), args(proto::kRedactArgs, kKey),
      paths(proto::kRedactPaths, kKey), hosts(proto::kRedactHosts, kKey);
  EXPECT_TRUE(Looks(names.Range("secret"), "name-[0-9a-f]{16}"));
  EXPECT_EQ(args.Range("open"), "open");
  EXPECT_TRUE(Looks(names.Kernel("_Z1fv"), "kernel-[0-9a-f]{16}"));
  EXPECT_TRUE(Looks(names.Kernel("ncclDevKernel_AllReduce"), "nccl-[0-9a-f]{16}"));
  EXPECT_EQ(paths.Kernel("_Z1fv"), "_Z1fv");
  EXPECT_TRUE(Looks(paths.Path("/a/b"), "path-[0-9a-f]{16}"));
  EXPECT_TRUE(Looks(paths.ThreadName("program"), "[0-9a-f]{15}"));
  EXPECT_TRUE(proto::IsRedactedHost(hosts.Host("node1")));
  EXPECT_EQ(paths.Host("node1"), "node1");
  for (const Redactor* any : {&names, &args, &paths, &hosts}) {
    EXPECT_TRUE(Looks(any->Free("a title"), "text-[0-9a-f]{16}"));
  }
  EXPECT_EQ(names.Range(""), "");
}

TEST(Redactor, ArgumentsWithinNames) {
  const Redactor redactor(proto::kRedactArgs, kKey);
  EXPECT_TRUE(
      Looks(redactor.Kernel("_Z5scaleI6SecretEvPf"), "void scale<[0-9a-f]{16}>\\([0-9a-f]{16}\\)"));
  EXPECT_NE(redactor.Kernel("_Z5scaleI6SecretEvPf"), redactor.Kernel("_Z5scaleI6OthersEvPf"));
  EXPECT_EQ(redactor.Kernel("plain_kernel"), "plain_kernel");
  // What claims to be mangled and is not can hold anything anywhere.
  EXPECT_TRUE(Looks(redactor.Kernel("_Znonsense<Secret"), "kernel-[0-9a-f]{16}"));
  EXPECT_TRUE(Looks(redactor.Kernel("kernel<Secret"), "kernel<[0-9a-f]{16}"));
  EXPECT_EQ(redactor.Kernel("_ZN12_GLOBAL__N_11fEv"), "(anonymous namespace)::f()");
}

TEST(Redactor, LabelsKeepNumbersAndCommonKeys) {
  const Redactor redactor(proto::kRedactNames, kKey);
  EXPECT_EQ(redactor.LabelKey("batch"), "batch");
  EXPECT_NE(redactor.LabelKey("customer"), "customer");
  EXPECT_EQ(redactor.LabelValue("64"), "64");
  EXPECT_NE(redactor.LabelValue("llama"), "llama");
}

TEST(Redactor, ReportsAndHellos) {
  const Redactor redactor(kAll, kKey);
  CycleReportData report;
  report.gpu.reason = "CUPTI at /home/secret/x.so is held by libsecret.so";
  report.gpu.holder = "libsecret.so";
  report.gpu.cupti_path = "/home/secret/x.so";
  report.top_ranges.push_back({"secret", "secret", 3});
  redactor.Apply(&report);
  EXPECT_EQ(EncodeCycleReport(report).find("secret"), std::string::npos);

  HelloData hello;
  hello.identity.host = hello.exe = hello.exe_path = hello.title = hello.out = "secret";
  hello.argv = {"secret"};
  hello.rank_conflicts = {"RANK=secret"};
  hello.labels = {{"secret", "secret"}};
  redactor.Apply(&hello);
  const std::string bytes = EncodeHello(hello);
  EXPECT_EQ(bytes.find("secret"), std::string::npos);
  EXPECT_NE(bytes.find("RANK"), std::string::npos);
}

TEST(Redactor, BatchesHoldHashesAndApiNames) {
  using core::NameTable;
  ASSERT_TRUE(NameTable::Init());
  Redactor redactor(kAll, kKey);
  BatchBuilder builder({.run = "run", .session = "0123456789abcdef", .host = "secret", .rank = 0});
  builder.SetRedactor(&redactor);
  builder.AddThread(1, 2, "secret");
  core::Record range{};
  range.kind = core::RecordKind::kRangePush;
  range.name = NameTable::Intern("secret range");
  range.domain = NameTable::Intern("secret domain");
  builder.AddRecord(1, range);
  core::Record call{};
  call.kind = core::RecordKind::kCall;
  call.name = NameTable::Intern("cuLaunchKernel");
  builder.AddRecord(1, call);
  core::KernelActivity kernel{};
  kernel.name = NameTable::Intern("secret_kernel");
  builder.OnKernel(kernel);
  builder.AddNote(0, "code", "see /home/secret/x");
  const KindTotals totals[kActivityKinds] = {};
  const std::string bytes = builder.Finish(0, 1, 0, totals, {});
  EXPECT_EQ(bytes.find("secret"), std::string::npos);
  EXPECT_NE(bytes.find("cuLaunchKernel"), std::string::npos);
  EXPECT_NE(bytes.find(redactor.Range("secret range")), std::string::npos);
  v1::Batch batch;
  ASSERT_TRUE(batch.ParseFromString(bytes));
  EXPECT_EQ(batch.strings().id_size(), 4);
}

}  // namespace
}  // namespace stepagent::drain
