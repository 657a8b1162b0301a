#pragma once
// An uplink of this process and an address for its collector.
//
// Thread rule: one thread beside the uplink's own. Failure rule: pure, but for the expectations.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/drain/io/uplink.h"
#include "batch.pb.h"
#include "fake_collector.h"

namespace stepagent::drain::io {

using core::HostClock;
inline constexpr auto kBatch = static_cast<uint8_t>(proto::FrameType::kBatch);
inline constexpr auto kGoodbye = static_cast<uint8_t>(proto::FrameType::kGoodbye);

inline std::string OwnAddress(const char* what) {
  static int number = 0;
  return "@stepagent-test/" + std::to_string(getpid()) + "/" + what + std::to_string(number++);
}

inline std::vector<std::string>* g_lines = nullptr;

class UplinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(core::MapPhaseWords());
    g_lines = &lines_;
    address_ = OwnAddress("collector");
    config_.session = "0123456789abcdef";
    config_.report = [](const char* line) { g_lines->push_back(line); };
  }
  void TearDown() override { uplink_.Finish(kPatienceNs); }

  // Waits as the agent does: on its wake word, which the io thread bumps when there is news.
  bool Await(const std::function<bool()>& condition) {
    const uint64_t end = HostClock::MonotonicNs() + kPatienceNs;
    while (true) {
      const uint32_t seen = core::g_words->wake.load();
      if (condition()) return true;
      if (HostClock::MonotonicNs() > end) return false;
      core::FutexWait(&core::g_words->wake, seen, 20'000'000);
    }
  }
  bool Submit(const std::string& payload, uint64_t records = 1) {
    BatchContent content;
    content.records[v1::ACTIVITY_LAUNCH] = records;
    return uplink_.Submit(kBatch, payload, sequence_++, content);
  }
  uint64_t Lost() {
    const BatchContent losses = uplink_.TakeLosses();
    EXPECT_EQ(losses.total(), losses.records[v1::ACTIVITY_LAUNCH]);
    return lost_ += losses.total();
  }

  static constexpr uint64_t kPatienceNs = 20'000'000'000;
  std::string address_;
  UplinkConfig config_;
  Uplink uplink_;
  std::vector<std::string> lines_;
  uint64_t sequence_ = 0, lost_ = 0;
};

}  // namespace stepagent::drain::io
