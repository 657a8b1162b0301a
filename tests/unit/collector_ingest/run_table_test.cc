// Which rank a session without one gets, and that numbers stay unique.
#include "collector/ingest/run_table.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "collector/spool/names.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent::ingest {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

constexpr int64_t kNow = 1'767'323'045'000'000'000;  // 2026-01-02T03:04:05Z

// Two get each other's number; a third comes when only the first has renamed its folder.
TEST(RunTable, NumbersStayUniqueWhileFoldersAreRenamed) {
  TemporaryFolder out;
  RunTable runs;
  std::shared_ptr<ingest::Run> run;
  ASSERT_EQ(runs.Find(out.path(), "run", "", kNow, &run), "");
  const auto enter = [&](const std::string& id, uint32_t pid, SessionFolder* folder) {
    model::SessionInfo session;
    session.id = id, session.pid = pid, session.exe = "train", session.host = "node1";
    session.rank = -1;
    EXPECT_EQ(runs.Enter(run.get(), &session, folder), "");
    return session;
  };
  SessionFolder first_folder, second_folder, third_folder;
  model::SessionInfo first = enter("11111111aaaaaaaa", 20, &first_folder);
  model::SessionInfo second = enter("22222222aaaaaaaa", 10, &second_folder);
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(second.rank, 1);
  first.rank = runs.FinalRank(run.get(), first);
  EXPECT_EQ(first.rank, 1);
  fs::rename(first_folder.path, run->path + "/sessions/" + spool::SessionName(first));
  EXPECT_EQ(enter("33333333aaaaaaaa", 30, &third_folder).rank, 2);
  EXPECT_EQ(runs.FinalRank(run.get(), second), 0);
}

class RunRanks : public testing::Test {
 protected:
  RunRanks() { EXPECT_EQ(runs_.Find(out_.path(), "run", "", kNow, &run_), ""); }
  model::SessionInfo Enter(const std::string& id, uint32_t pid, int32_t rank,
                           std::optional<std::string> visible = {}) {
    model::SessionInfo session;
    session.id = id, session.pid = pid, session.exe = "train", session.host = "node1";
    session.rank = rank, session.cuda_visible_devices = std::move(visible);
    folder_ = {};
    EXPECT_EQ(runs_.Enter(run_.get(), &session, &folder_), "");
    return session;
  }
  int32_t Final(const model::SessionInfo& session) { return runs_.FinalRank(run_.get(), session); }

  TemporaryFolder out_;
  RunTable runs_;
  std::shared_ptr<ingest::Run> run_;
  SessionFolder folder_;  // of the last that entered
};

TEST_F(RunRanks, AnExplicitRankIsNeverGivenToAnother) {
  const auto first = Enter("11111111aaaaaaaa", 10, -1);
  EXPECT_EQ(first.rank, 0);
  Enter("22222222aaaaaaaa", 20, 0);  // a launcher's word, before the first has settled
  EXPECT_FALSE(folder_.has_duplicate_rank);
  Enter("33333333aaaaaaaa", 30, 1);
  EXPECT_FALSE(folder_.has_duplicate_rank);
  EXPECT_EQ(Enter("44444444aaaaaaaa", 40, -1).rank, 3);
  EXPECT_EQ(Final(first), 2);
  // Settled: both are kept, and who has the number is named.
  Enter("55555555aaaaaaaa", 50, 2);
  EXPECT_TRUE(folder_.has_duplicate_rank);
  EXPECT_EQ(folder_.rank_holder, "pid 10");
  Enter("66666666aaaaaaaa", 60, 1);
  EXPECT_TRUE(folder_.has_duplicate_rank);
  EXPECT_EQ(folder_.rank_holder, "");
}

// An explicit rank that another host's collector took in after the number was given.
TEST_F(RunRanks, AnExplicitRankOfAnotherHostIsKeptClearOf) {
  const auto first = Enter("11111111aaaaaaaa", 10, -1);
  fs::create_directory(run_->path + "/sessions/train_rank0_node2_77_22222222");
  EXPECT_EQ(Final(first), 1);
}

TEST_F(RunRanks, ByDeviceThenPidHoweverTheyCome) {
  const auto a = Enter("11111111aaaaaaaa", 10, -1), b = Enter("22222222aaaaaaaa", 20, -1);
  runs_.SetDevice(run_.get(), a.id, 1);
  runs_.SetDevice(run_.get(), b.id, 0);
  EXPECT_EQ(Final(a), 1);
  const auto c = Enter("33333333aaaaaaaa", 15, -1), d = Enter("44444444aaaaaaaa", 5, -1, "3,1");
  runs_.SetDevice(run_.get(), c.id, 0);
  EXPECT_EQ(Final(b), 2);  // c's device and pid come first, and its number is open still
  EXPECT_EQ(Final(c), 0);
  EXPECT_EQ(Final(d), 3);
  EXPECT_EQ(Final(a), 1);
}

// What a first device is, the variable says before any context is there.
TEST_F(RunRanks, TheVisibleDevicesTellBeforeAContextDoes) {
  const auto a = Enter("11111111aaaaaaaa", 10, -1, "1"), b = Enter("22222222aaaaaaaa", 20, -1, "0");
  EXPECT_EQ(Final(a), 1);
  EXPECT_EQ(Final(b), 0);
}

}  // namespace
}  // namespace stepagent::ingest
