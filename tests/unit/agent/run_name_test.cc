// One run, one name: whoever of its processes asks, and whenever.
#include "proto/run_name.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/launch/temp_folder.h"

namespace stepagent::proto {
namespace {

class Environment {
 public:
  Environment(std::initializer_list<std::string> entries) : entries_(entries) {
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
  }
  [[nodiscard]] char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

int64_t NowNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Ranks of one run start at different moments of a second: the name must not come from comparing
// two clocks in whole seconds.
TEST(RunName, IsTheSameAllThroughASecond) {
  const Environment ranks[] = {
      {"RANK=3", "TORCHELASTIC_RUN_ID=none", "MASTER_ADDR=h", "MASTER_PORT=1"},
      {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=1"},
      {"OMPI_MCA_ess_base_jobid=9", "OMPI_COMM_WORLD_RANK=1"}};
  uint64_t random = 1;
  const auto name = [&random](const Environment& rank) {
    bool is_given = false;
    const std::string text = RunName(rank.get(), ++random, &is_given);
    EXPECT_TRUE(is_given);
    return text;
  };
  std::vector<std::string> first;
  for (const Environment& rank : ranks) first.push_back(name(rank));
  const int64_t end_ns = NowNs(CLOCK_MONOTONIC) + 1'100'000'000;
  while (NowNs(CLOCK_MONOTONIC) < end_ns) {
    for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(name(ranks[i]), first[i]);
  }
}

TEST(RunName, OfTheLauncherWinsUnlessItIsNoName) {
  bool is_given = false;
  EXPECT_EQ(RunName(Environment{"STEPAGENT_RUN=mine", "SLURM_JOB_ID=7"}.get(), 1, &is_given),
            "mine");
  EXPECT_TRUE(is_given);
  for (const char* bad : {"STEPAGENT_RUN=../x", "STEPAGENT_RUN=.x", "STEPAGENT_RUN=-x",
                          "STEPAGENT_RUN=latest", "STEPAGENT_RUN="}) {
    const std::string name = RunName(Environment{bad}.get(), 0xabcdef01, &is_given);
    EXPECT_FALSE(is_given);
    EXPECT_TRUE(name.ends_with("_abcdef01")) << name;
  }
}

TEST(RunName, DiffersBetweenRunsOfOneLauncher) {
  bool is_given = false;
  const auto name = [&](const char* step) {
    return RunName(Environment{"SLURM_JOB_ID=7", step, "SLURM_PROCID=0"}.get(), 1, &is_given);
  };
  EXPECT_NE(name("SLURM_STEP_ID=0"), name("SLURM_STEP_ID=1"));
}

// A batch script is no job step, and a job of mpirun's inside a step is one of its own.
TEST(RunName, OfJobsInsideOthers) {
  EXPECT_EQ(SharedRunKey(Environment{"SLURM_JOB_ID=7", "SLURM_PROCID=0"}.get()).text, "");
  EXPECT_EQ(SharedRunName(Environment{"SLURM_JOB_ID=7", "SLURM_PROCID=0"}.get()), "");
  const Environment job{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "OMPI_MCA_ess_base_jobid=9"};
  EXPECT_EQ(SharedRunKey(job.get()).text, "ompi/9");
}

// A /proc of our own: process 10 launches ranks 20 and 30, of which 30 lives in a shell (25) that
// was given the variables too, and has a child 40.
class LauncherStartTest : public testing::Test {
 protected:
  static constexpr int64_t kBoot = 1'700'000'000;

  LauncherStartTest() {
    folder_.Write("stat", "cpu 1 2 3\nintr " + std::string(20'000, '7') + "\nctxt 5\nbtime " +
                              std::to_string(kBoot) + "\nprocesses 9\n");
    Process(10, 1, 100, "PATH=/bin");
    Process(20, 10, 250, "PATH=/bin RANK=0");
    Process(25, 10, 260, "RANK=1");
    Process(30, 25, 399, "RANK=1 PATH=/bin");
    Process(40, 30, 999, "CHILD=1 RANK=1");
  }

  // `seconds` after boot.
  void Process(int pid, int parent, int64_t seconds, std::string environment) {
    for (char& c : environment) c = c == ' ' ? '\0' : c;
    const std::string folder = std::to_string(pid);
    std::string stat = folder + " (a) b c) S " + std::to_string(parent);
    for (int field = 5; field < 22; ++field) stat += " 0";
    folder_.Write(folder + "/stat",
                  stat + " " + std::to_string(seconds * sysconf(_SC_CLK_TCK)) + " 0 0");
    folder_.Write(folder + "/environ", environment);
  }
  [[nodiscard]] int64_t Start(pid_t parent) const {
    return LauncherStart(folder_.path(), parent, "RANK") - kBoot;
  }

  launch::TempFolder folder_;
};

TEST_F(LauncherStartTest, IsTheParents) { EXPECT_EQ(Start(10), 100); }

TEST_F(LauncherStartTest, LooksThroughAShellAroundTheRank) { EXPECT_EQ(Start(25), 100); }

TEST_F(LauncherStartTest, LooksThroughTheRankAroundItsChild) {
  EXPECT_EQ(Start(20), 100);
  EXPECT_EQ(Start(40), 100);
}

TEST_F(LauncherStartTest, StopsAtOneThatShowsNoEnvironment) {
  std::filesystem::remove(std::filesystem::path(folder_.path()) / "10/environ");
  EXPECT_EQ(Start(30), 100);
}

TEST_F(LauncherStartTest, IsTheBootWhereTheLauncherCannotBeSeen) {
  std::filesystem::remove_all(std::filesystem::path(folder_.path()) / "10");
  EXPECT_EQ(Start(20), 0);
  EXPECT_EQ(Start(30), 0);
  EXPECT_EQ(Start(0), 0);
}

TEST_F(LauncherStartTest, EndsWhereParentsGoInACircle) {
  Process(10, 40, 100, "RANK=9");
  EXPECT_GE(Start(10), 0);
}

}  // namespace
}  // namespace stepagent::proto
