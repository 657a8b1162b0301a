// The collector stands beside an application that needs the memory itself: 256 MiB is its bound,
// whatever comes, and nothing is lost by it.
#include "tests/unit/collector_ingest/stepcollector_fixture.h"

#include <algorithm>
#include <fstream>

#include "collector/ingest/frame_reader.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/recover.h"
#include "nlohmann/json.hpp"

namespace stepagent {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kBoundKib = 256 * 1024;
constexpr uint32_t kPairsPerBatch = 10'000;
constexpr uint32_t kFits = 65;  // batches: 1.3 million records

uint64_t PeakKib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") return status >> word ? std::stoull(word) : 0;
  return 0;
}

class CollectorMemory : public Stepcollector {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
    factory_.active = 1;
    collector_ =
        Start({"--socket", Socket(), "--out", Out(), "--log", "off", "--memory", "256MiB"});
    fd_ = Connect();
    Send(factory_.HelloFrame());
    EXPECT_EQ(Next().header.type, static_cast<uint8_t>(proto::FrameType::kWelcome));
  }
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
    End();
  }
  void End() {
    if (collector_ <= 0) return;
    kill(collector_, SIGTERM);
    EXPECT_EQ(Wait(collector_), 0);
    collector_ = -1;
  }
  void Send(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      done += static_cast<size_t>(n);
    }
  }
  spool::RawFrame Next() {
    spool::RawFrame frame;
    char bytes[4096];
    while (reader_.Next(&frame) != ingest::FrameReader::Result::kFrame) {
      pollfd p{fd_, POLLIN, 0};
      const ssize_t n = poll(&p, 1, 120'000) > 0 ? recv(fd_, bytes, sizeof bytes, 0) : 0;
      if (n <= 0) return ADD_FAILURE() << "no answer", frame;
      reader_.Feed(bytes, static_cast<size_t>(n));
    }
    return frame;
  }
  v1::Written Written() {
    v1::Written written;
    EXPECT_TRUE(written.ParseFromString(Next().payload));
    return written;
  }
  // A cycle of one step with so many launches, each of one kernel; or with ranges of so many names.
  void SendCycle(uint32_t cycle, uint32_t batches, bool has_names = false) {
    const int64_t begin = (cycle + 1) * 100'000 * kMs, end = begin + 90'000 * kMs;
    factory_.Event(cycle, v1::CycleEvent::ACTIVE_BEGIN, begin);
    factory_.Step(cycle, begin, end, cycle);
    int64_t at = begin;
    for (uint32_t b = 0; b < batches; ++b) {
      for (uint32_t i = 0; i < kPairsPerBatch; ++i, at += 10'000) {
        ++correlation_;
        if (has_names) {
          factory_.Push("request " + std::to_string(correlation_), at);
          factory_.Pop(at + 1000);
        } else {
          factory_.Launch(correlation_, at);
          factory_.Kernel({.begin = at + 2000, .duration = 1000, .correlation = correlation_});
        }
      }
      Send(factory_.TakeFrame(at));
    }
    factory_.Event(cycle, v1::CycleEvent::ACTIVE_END, end, "schedule");
    factory_.Event(cycle, v1::CycleEvent::CLOSED, end);
    factory_.Report(cycle);
    Send(factory_.TakeFrame(end + kMs));
  }
  [[nodiscard]] std::string Session() const {
    return Out() + "/20260102T030405_0a1b2c3d/sessions/train_rank0_node1_4242_00112233";
  }
  [[nodiscard]] nlohmann::json Document(const std::string& name) const {
    return nlohmann::json::parse(test::ReadFile(Session() + "/" + name), nullptr, false);
  }

  test::BatchFactory factory_;
  ingest::FrameReader reader_;
  pid_t collector_ = -1;
  int fd_ = -1;
  uint32_t correlation_ = 0;
};

TEST_F(CollectorMemory, ACycleThatFitsIsWrittenAtOnce) {
  SendCycle(0, kFits);
  EXPECT_EQ(Written().error(), "");
  EXPECT_EQ(Document("cycle-0000/manifest.json")["balance"]["kernel"]["written"],
            kFits * kPairsPerBatch);
  RecordProperty("peak_kib", static_cast<int>(PeakKib(collector_)));
  EXPECT_LE(PeakKib(collector_), kBoundKib);
  EXPECT_GT(PeakKib(collector_), 0U);
}

TEST_F(CollectorMemory, ALargerOneIsLeftToItsReaderAndLaterOnesAreWrittenAgain) {
  SendCycle(0, 120);
  EXPECT_NE(Written().error().find("STEPAGENT_COLLECTOR_MEMORY"), std::string::npos);
  EXPECT_LE(PeakKib(collector_), kBoundKib);
  SendCycle(1, 1);
  EXPECT_EQ(Written().error(), "");
  EXPECT_EQ(Document("cycle-0001/manifest.json")["balance"]["kernel"]["dropped"], 0);
  Send(factory_.GoodbyeFrame());
  for (int i = 0; i < 3000 && Document("session.json")["state"] != "closed"; ++i)
    poll(nullptr, 0, 10);
  EXPECT_EQ(Document("session.json")["cycles"][0]["state"], "deferred");
  EXPECT_LE(PeakKib(collector_), kBoundKib);
  End();  // closed is written a moment before the collector lets go of the session's raw.steps
  const spool::RecoverReport report = spool::RecoverAll(Out());
  EXPECT_EQ(report.cycles_written, 1U);
  const nlohmann::json manifest = Document("cycle-0000/manifest.json");
  EXPECT_EQ(manifest["balance"]["kernel"]["written"], 120 * kPairsPerBatch);
  EXPECT_EQ(manifest["cycle"]["complete"], true);
  EXPECT_EQ(Document("session.json")["cycles"][0]["state"], "written");
}

// A range for each request, each with a name of its own: few records, and large tables.
TEST_F(CollectorMemory, NamesCountToo) {
  SendCycle(0, 12, /*has_names=*/true);
  EXPECT_NE(Written().error().find("deferred"), std::string::npos);
  EXPECT_LE(PeakKib(collector_), kBoundKib);
}

TEST_F(CollectorMemory, ABadBoundIsOneLineAndAStatus) {
  for (const char* value : {"lots", "63MiB", "-1", "1MiB", "256 MiB"}) {
    EXPECT_EQ(Run({"--socket", Socket() + "2", "--out", Out(), "--memory", value}), 2) << value;
    const std::string said = Said();
    EXPECT_NE(said.find("--memory (STEPAGENT_COLLECTOR_MEMORY): '" + std::string(value) + "'"),
              std::string::npos)
        << said;
  }
  EXPECT_NE(Said().find("allowed: 64MiB or more"), std::string::npos);
  const std::string said = Said();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 5);
}

}  // namespace
}  // namespace stepagent
