#include "proto/rank_info.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "proto/process_files.h"

namespace stepagent::proto {
namespace {

std::optional<int32_t> Number(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

RankInfo ReadRank(char* const* environment) {
  RankInfo info;
  struct Family {
    const char *rank, *world, *local;
  };
  static constexpr Family kFamilies[] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
  };
  for (const Family& family : kFamilies) {
    const std::string_view text = Variable(environment, family.rank);
    if (text.empty()) continue;
    const std::optional<int32_t> rank = Number(text);
    const std::string entry = std::string(family.rank) + "=" + std::string(text.substr(0, 40));
    if (!rank || info.rank >= 0) {
      if (!rank || *rank != info.rank) info.conflicts.push_back(entry);
      continue;
    }
    info.rank = *rank;
    info.source = family.rank;
    info.world_size = Number(Variable(environment, family.world)).value_or(-1);
    info.local_rank = Number(Variable(environment, family.local)).value_or(-1);
  }
  if (info.local_rank < 0) {
    info.local_rank = Number(Variable(environment, "LOCAL_RANK")).value_or(-1);
  }
  return info;
}

}  // namespace stepagent::proto
