#include "agent/drain/session_messages.h"

#include <gtest/gtest.h>

#include <random>

#include "agent/drain/message_writer.h"
#include "control.pb.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "session.pb.h"

namespace stepagent::drain {
namespace {

TEST(ValidUtf8, KeepsWhatIsValidAndReplacesTheRest) {
  EXPECT_EQ(ValidUtf8("plain", 100), "plain");
  EXPECT_EQ(ValidUtf8("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80", 100),
            "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(ValidUtf8("a\xFF"
                      "b",
                      100),
            "a" + bad + "b");
  EXPECT_EQ(ValidUtf8("\xC0\x80", 100), bad + bad);            // overlong
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80", 100), bad + bad + bad);  // surrogate
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80", 100), bad + bad + bad + bad);
  EXPECT_EQ(ValidUtf8("cut\xE2\x82", 100), "cut" + bad + bad);
  EXPECT_EQ(ValidUtf8("\xC3\xBC\xC3\xBC", 3), "\xC3\xBC");  // between characters
}

TEST(Hello, HoldsEverything) {
  HelloData hello;
  hello.agent_version = "0.1.0";
  hello.identity = {.run = "run", .session = "0123456789abcdef", .host = "h", .rank = 0};
  hello.pid = 1234;
  hello.ppid = 1;
  hello.exe = "train\xff";
  hello.exe_path = "/usr/bin/python3";
  hello.title = "python3 train.py";
  hello.argv = {"python3", "", "train.py"};
  hello.rank_source = "RANK";
  hello.world_size = 8;
  hello.cuda_visible_devices = "";
  hello.clock_host = "tsc";
  hello.base_unix_ns = 1'790'000'000'000'000'000;
  hello.base_mono_ns = -1;
  hello.schedule = ScheduleData{.skip_first = 1, .active = 2, .skip_first_wait = true};
  hello.step_source = "nvtx:step";
  hello.settings = {{"out", "/x"}, {"formats", ""}};
  hello.labels = {{"batch", "64"}};
  hello.formats = {"chrome"};
  hello.activities = {"kernel", "nvtx"};
  hello.process_start_ticks = 99;
  hello.max_bytes = 1ULL << 40;
  hello.launcher_watches = true;
  v1::Hello read;
  ASSERT_TRUE(read.ParseFromString(EncodeHello(hello)));
  EXPECT_EQ(read.protocol(), proto::kProtocol);
  EXPECT_EQ(read.protocol_min(), proto::kProtocolMin);
  EXPECT_EQ(read.identity().session(), "0123456789abcdef");
  EXPECT_EQ(read.identity().rank(), 0);
  EXPECT_EQ(read.exe(), "train\xEF\xBF\xBD");
  ASSERT_EQ(read.argv_size(), 3);
  EXPECT_EQ(read.argv(1), "");
  EXPECT_EQ(read.world_size(), 8);
  EXPECT_EQ(read.local_rank(), -1);
  EXPECT_TRUE(read.has_cuda_visible_devices());
  EXPECT_EQ(read.clock().base_unix_ns(), 1'790'000'000'000'000'000);
  EXPECT_EQ(read.clock().base_mono_ns(), -1);
  EXPECT_EQ(read.schedule().active(), 2U);
  EXPECT_TRUE(read.schedule().skip_first_wait());
  EXPECT_EQ(read.settings().at("out"), "/x");
  EXPECT_EQ(read.settings().at("formats"), "");
  EXPECT_EQ(read.labels().at("batch"), "64");
  EXPECT_EQ(read.activities_size(), 2);
  EXPECT_EQ(read.max_bytes(), 1ULL << 40);
  EXPECT_TRUE(read.launcher_watches());
}

TEST(Goodbye, CarriesTheTotals) {
  KindTotals totals[kActivityKinds];
  totals[v1::ACTIVITY_NVTX] = {.produced = 5, .sent = 4, .dropped_ring_full = 1};
  v1::Goodbye read;
  ASSERT_TRUE(read.ParseFromString(EncodeGoodbye("exit", EncodeLossReport(totals), 17, "")));
  EXPECT_FALSE(read.has_all_steps());
  EXPECT_EQ(read.ended(), "exit");
  EXPECT_EQ(read.last_sequence(), 17U);
  ASSERT_EQ(read.losses().kinds_size(), 1);
  EXPECT_EQ(read.losses().kinds(0).dropped_ring_full(), 1U);
}

TEST(Goodbye, CarriesTheStepsThatNoReportHas) {
  NewStepRows rows;
  CycleReportData report;
  rows.Take({{0, 5, 0}, {1, 6, 2}}, 2, &report);
  const std::vector<StepDurationRow> kept = {{0, 5, 0}, {1, 6, 2}, {2, 7, 0}, {3, 8, 0}};
  for (int times = 0; times < 2; ++times) {  // asked for again, they are told again
    v1::Goodbye read;
    ASSERT_TRUE(read.ParseFromString(EncodeGoodbye("request", "", 3, EncodeAllSteps(4, rows.Of(kept)))));
    EXPECT_EQ(read.all_steps().count(), 4U);
    ASSERT_EQ(read.all_steps().index_size(), 2);
    EXPECT_EQ(read.all_steps().index(0), 2U);
    EXPECT_EQ(read.all_steps().duration_ns(1), 8U);
    EXPECT_EQ(read.all_steps().collecting(1), 0U);
  }
  rows.Take(kept, 4, &report);
  EXPECT_EQ(report.all_steps.size(), 2U);
}

TEST(Control, AnswersAreRead) {
  ControlAnswerData answer;
  answer.verdict = ControlAnswerData::Verdict::kBusy;
  answer.reason = "a window is open";
  answer.status.pid = 5;
  answer.status.rank = -1;
  answer.status.gpus = {0, 3};
  answer.status.phase = v1::PHASE_ACTIVE;
  answer.status.top_ranges = {{.name = "step", .domain = "d", .count = 3}};
  answer.status.signal_off = true;
  v1::ControlAnswer read;
  ASSERT_TRUE(read.ParseFromString(EncodeControlAnswer(answer)));
  EXPECT_EQ(read.verdict(), v1::ControlAnswer::BUSY);
  EXPECT_EQ(read.status().rank(), -1);
  EXPECT_EQ(read.status().gpus(1), 3U);
  EXPECT_EQ(read.status().phase(), v1::PHASE_ACTIVE);
  EXPECT_EQ(read.status().top_ranges(0).count(), 3U);
  EXPECT_TRUE(read.status().signal_off());
}

v1::ControlRequest SomeRequest() {
  v1::ControlRequest request;
  request.set_protocol(1);
  request.set_verb(v1::ControlRequest::START);
  request.set_steps(3);
  request.set_duration_ns(5);
  (*request.mutable_settings())["schedule"] = "active=3";
  (*request.mutable_settings())["formats"] = "chrome";
  request.set_at_step(11);
  request.set_by_signal(true);
  return request;
}

TEST(Control, RequestsAreDecoded) {
  const auto data = DecodeControlRequest(SomeRequest().SerializeAsString());
  ASSERT_TRUE(data);
  EXPECT_EQ(data->protocol, 1U);
  EXPECT_EQ(data->verb, ControlRequestData::Verb::kStart);
  EXPECT_EQ(data->steps, 3U);
  EXPECT_EQ(data->duration_ns, 5U);
  EXPECT_EQ(data->at_step, 11U);
  EXPECT_TRUE(data->by_signal);
  EXPECT_EQ(data->settings.size(), 2U);
  EXPECT_EQ(data->settings.at("schedule"), "active=3");
}

TEST(Control, UnknownFieldsAndVerbsOfANewerSideAreSkipped) {
  std::string bytes = SomeRequest().SerializeAsString();
  bytes += std::string("\xF2\x3F\x03xyz\xF8\x3F\x2A", 9);  // fields 1022 (text) and 1023 (varint)
  bytes += std::string("\x10\x63", 2);                     // verb 99
  const auto data = DecodeControlRequest(bytes);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->verb, ControlRequestData::Verb::kNone);
  EXPECT_EQ(data->steps, 3U);
}

TEST(Control, HostileBytesAreRefusedOrHarmless) {
  EXPECT_FALSE(DecodeControlRequest("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_FALSE(DecodeControlRequest(std::string(proto::kMaxControlBytes + 1, '\0')));
  v1::ControlRequest many;
  for (size_t i = 0; i < 2 * kMaxListEntries; ++i) {
    (*many.mutable_settings())[std::to_string(i)] = "x";
  }
  const auto bounded = DecodeControlRequest(many.SerializeAsString());
  ASSERT_TRUE(bounded);
  EXPECT_EQ(bounded->settings.size(), kMaxListEntries);

  std::mt19937_64 random(7);
  const std::string good = SomeRequest().SerializeAsString();
  for (int i = 0; i < 200000; ++i) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    (void)DecodeControlRequest(bytes);
    (void)DecodeWelcome(bytes);
    (void)DecodeWritten(bytes);
    (void)DecodeThrottle(bytes);
  }
}

}  // namespace
}  // namespace stepagent::drain
