// `start` waits: what is said of a process is what it said itself, whatever its neighbours do.
#include "collector/cli/start_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <memory>

#include "collector/cli/common_step.h"
#include "collector/cli/start_outcome.h"
#include "tests/unit/launch/fake_agent.h"
#include "tests/unit/launch/temp_folder.h"

namespace stepagent::cli {
namespace {

using launch::Answer;
using launch::FakeAgent;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Verb = v1::ControlRequest::Verb;
using namespace std::chrono_literals;

v1::ControlAnswer Says(v1::Phase phase, uint64_t step = 5,
                       v1::ControlAnswer::Verdict verdict = v1::ControlAnswer::OK) {
  v1::ControlAnswer answer;
  answer.set_verdict(verdict);
  answer.mutable_status()->set_phase(phase);
  answer.mutable_status()->set_step(step);
  return answer;
}

class StartWaitTest : public testing::Test {
 protected:
  void Add(int rank, FakeAgent::Respond respond) {
    agents_.push_back(std::make_unique<FakeAgent>(folder_.path(), "s" + std::to_string(rank),
                                                  std::move(respond)));
    Answer answer;
    answer.agent = agents_.back()->entry();
    answer.message = Says(v1::PHASE_WAITING);
    answer.message->mutable_status()->set_rank(rank);
    answers_.push_back(answer);
    laggards_.at_steps.emplace_back();
  }
  void Wait(std::chrono::milliseconds timeout) {
    laggards_.deadline = std::chrono::steady_clock::now() + timeout;
    WaitUntilIdle(&answers_, answers_, {}, &laggards_);
  }
  launch::TempFolder folder_;
  std::vector<std::unique_ptr<FakeAgent>> agents_;
  std::vector<Answer> answers_;
  Laggards laggards_{{}, 60s, std::nullopt, {}};
};

TEST_F(StartWaitTest, OneThatHangsMakesNoOthersWordOld) {
  // Done while the neighbour is waited for, on a machine that is busy.
  std::atomic<int> asked = 0;
  Add(0, [&asked](Verb) {
    const bool is_first = asked++ == 0;
    if (!is_first) poll(nullptr, 0, 50);
    return Says(is_first ? v1::PHASE_WAITING : v1::PHASE_IDLE, 9);
  });
  Add(1, nullptr);
  Wait(200ms);
  EXPECT_THAT(laggards_.names,
              ElementsAre(HasSubstr("does not answer within --timeout: whether it records")));
  EXPECT_EQ(answers_[0].message->status().phase(), v1::PHASE_IDLE);
  EXPECT_EQ(answers_[0].message->status().step(), 9U);
}

TEST_F(StartWaitTest, OnlyWhoWasCalledOffIsSaidToBe) {
  const auto answers_stop = [](v1::ControlAnswer stop) {
    return [stop](Verb verb) {
      return verb == v1::ControlRequest::STOP ? stop : Says(v1::PHASE_WAITING);
    };
  };
  Add(0, answers_stop(Says(v1::PHASE_IDLE)));
  Add(1, answers_stop(Says(v1::PHASE_IDLE, 9, v1::ControlAnswer::BUSY)));  // done just before
  Add(2, answers_stop(Says(v1::PHASE_ACTIVE)));
  Add(3, answers_stop(Says(v1::PHASE_WARMUP, 9, v1::ControlAnswer::BUSY)));
  Wait(0ms);
  EXPECT_THAT(laggards_.names,
              ElementsAre(HasSubstr("came to no step to record within --timeout: called off"),
                          HasSubstr("began just then and ends early"), HasSubstr("goes on")));
}

TEST_F(StartWaitTest, ACommonStepThatIsFarIsNamed) {
  Add(0, [](Verb verb) {
    return verb == v1::ControlRequest::STOP ? Says(v1::PHASE_IDLE, 7) : Says(v1::PHASE_WAITING, 6);
  });
  laggards_.at_steps[0] = 100;
  Wait(0ms);
  EXPECT_THAT(laggards_.names, ElementsAre(HasSubstr("never reached step 100: it is at step 7")));
}

TEST_F(StartWaitTest, OneThatDiedKeepsItsLastWords) {
  Add(0, nullptr);
  answers_[0].message->mutable_status()->set_last_error("host only");
  agents_.clear();
  Wait(20s);
  EXPECT_TRUE(answers_[0].is_gone);
  EXPECT_EQ(answers_[0].message->status().last_error(), "host only");
  EXPECT_THAT(laggards_.names, IsEmpty());
  EXPECT_FALSE(OutcomeOf(answers_[0], answers_[0]).is_good);
}

TEST(AnswerTime, LeavesTimeForTheOthers) {
  const auto in = [](std::chrono::milliseconds left) {
    return AnswerTime(std::chrono::steady_clock::now() + left);
  };
  EXPECT_EQ(AnswerTime(std::nullopt), launch::kAnswerTimeout);
  EXPECT_EQ(in(60s), launch::kAnswerTimeout);
  EXPECT_LE(in(4s), 1s);
  // A healthy agent's answer is worth more than the last milliseconds of --timeout.
  EXPECT_EQ(in(-1s), 500ms);
}

TEST(CommonStep, WhatWasNotStartedIsNotSaidToBe) {
  std::vector<Answer> targets(3);
  for (size_t i = 0; i < targets.size(); ++i) {
    targets[i].message = Says(v1::PHASE_IDLE);  // the answer to the first look
    targets[i].message->mutable_status()->set_step_source(i < 2 ? "nvtx:x" : "every:1s");
  }
  v1::ControlRequest request;
  request.set_steps(3);
  const auto over = std::chrono::steady_clock::now() - 1s;
  const CommonStart start = StartTogether(targets, request, std::nullopt, 1, over);
  EXPECT_THAT(start.error, HasSubstr("--timeout was over"));
  for (const Answer& answer : start.answers) EXPECT_FALSE(WasTaken(answer));
  EXPECT_THAT(start.answers[2].error, HasSubstr("--timeout was over"));
}

}  // namespace
}  // namespace stepagent::cli
