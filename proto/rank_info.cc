#include "proto/rank_info.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "proto/process_files.h"
#include "proto/settings.h"

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

// Set to nothing is set too: a launcher's script meant something by it.
bool IsSet(char* const* environment, std::string_view name) {
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    if (std::strncmp(*e, name.data(), name.size()) == 0 && (*e)[name.size()] == '=') return true;
  }
  return false;
}

// What is the matter with each, and what came of it.
std::vector<std::string> Warnings(const std::vector<SettingError>& bad, const RankInfo& info) {
  const std::string outcome =
      info.rank < 0 ? "; the collector gives this process a rank"
                    : "; rank " + std::to_string(info.rank) + " is taken from " + info.source;
  std::vector<std::string> lines;
  for (const SettingError& error : bad) lines.push_back(error.Line() + outcome);
  return lines;
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
  std::vector<SettingError> bad;
  std::string beyond;
  for (const Family& family : kFamilies) {
    if (!IsSet(environment, family.rank)) continue;
    const std::string_view text = Variable(environment, family.rank);
    const std::optional<int32_t> rank = Number(text);
    if (!rank) {
      bad.push_back(
          {family.rank, std::string(text), "no rank", "a whole number from 0 to 2147483647"});
    }
    const std::string entry = std::string(family.rank) + "=" + std::string(text.substr(0, 40));
    if (!rank || info.rank >= 0) {
      if (!rank || *rank != info.rank) info.conflicts.push_back(entry);
      continue;
    }
    info.rank = *rank;
    info.source = family.rank;
    info.world_size = Number(Variable(environment, family.world)).value_or(-1);
    info.local_rank = Number(Variable(environment, family.local)).value_or(-1);
    if (info.world_size >= 0 && info.rank >= info.world_size)
      beyond = std::string(family.rank) + "=" + std::to_string(info.rank) + " is not below " +
               family.world + "=" + std::to_string(info.world_size) +
               ", as a rank is; it is taken as it is";
  }
  if (info.local_rank < 0) {
    info.local_rank = Number(Variable(environment, "LOCAL_RANK")).value_or(-1);
  }
  info.warnings = Warnings(bad, info);
  if (!beyond.empty()) info.warnings.push_back(beyond);
  return info;
}

}  // namespace stepagent::proto
