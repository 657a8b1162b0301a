#include "proto/rank_info.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stepagent::proto {
namespace {

RankInfo Read(std::initializer_list<std::string> variables) {
  std::vector<std::string> entries(variables);
  std::vector<char*> pointers;
  for (std::string& entry : entries) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  return ReadRank(pointers.data());
}

TEST(RankInfo, TheFirstFamilyWinsAndOthersThatDisagreeAreNoted) {
  const RankInfo info = Read(
      {"SLURM_PROCID=0", "SLURM_NTASKS=4", "RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "PMI_RANK=3"});
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.world_size, 8);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.source, "RANK");
  EXPECT_EQ(info.conflicts, std::vector<std::string>{"SLURM_PROCID=0"});
}

TEST(RankInfo, WhatIsNoNumberIsNoRank) {
  EXPECT_EQ(Read({"PATH=/bin"}).rank, -1);
  EXPECT_EQ(Read({"PATH=/bin"}).source, "none");
  const RankInfo info = Read({"RANK=-1", "OMPI_COMM_WORLD_RANK=2", "LOCAL_RANK=5"});
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.source, "OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(info.local_rank, 5);
  EXPECT_EQ(info.conflicts, std::vector<std::string>{"RANK=-1"});
  EXPECT_EQ(
      info.warnings,
      std::vector<std::string>{
          "RANK: '-1': no rank; allowed: a whole number from 0 to 2147483647; rank 2 is taken "
          "from OMPI_COMM_WORLD_RANK"});
  for (const std::string value :
       {"", "abc", "+3", "3 ", "1.5", "2147483648", "99999999999999999999"}) {
    const RankInfo bad = Read({"RANK=" + value});
    EXPECT_EQ(bad.rank, -1) << value;
    EXPECT_EQ(bad.source, "none") << value;
    EXPECT_EQ(bad.conflicts, std::vector<std::string>{"RANK=" + value});
    EXPECT_EQ(bad.warnings,
              std::vector<std::string>{"RANK: '" + value +
                                       "': no rank; allowed: a whole number from 0 to 2147483647; "
                                       "the collector gives this process a rank"});
  }
  EXPECT_TRUE(Read({"RANK=2147483647", "SLURM_PROCID=0"}).warnings.empty());
}

TEST(RankInfo, ARankBeyondTheNumberOfRanksIsTakenAndSaid) {
  const RankInfo info = Read({"RANK=4", "WORLD_SIZE=2"});
  EXPECT_EQ(info.rank, 4);
  EXPECT_EQ(info.world_size, 2);
  EXPECT_EQ(info.warnings,
            std::vector<std::string>{
                "RANK=4 is not below WORLD_SIZE=2, as a rank is; it is taken as it is"});
  EXPECT_EQ(Read({"SLURM_PROCID=0", "SLURM_NTASKS=0"}).warnings.size(), 1U);
  EXPECT_TRUE(Read({"RANK=1", "WORLD_SIZE=2"}).warnings.empty());
  EXPECT_TRUE(Read({"RANK=4"}).warnings.empty());
  // Of a family that was not taken nothing is said.
  EXPECT_TRUE(Read({"RANK=1", "WORLD_SIZE=2", "PMI_RANK=1", "PMI_SIZE=1"}).warnings.empty());
}

}  // namespace
}  // namespace stepagent::proto
