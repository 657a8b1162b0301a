#pragma once
// Identity: who this process is, for people and for file names.
//
// Purpose: run, session, host, rank, program name and title, read once from the environment and
// /proc.
// Thread rule: ReadIdentity once at first use (and again in a revived child); Title whenever asked.
// Failure rule: what cannot be read is empty or -1; nothing fails without /proc.
#include <cstdint>
#include <string>
#include <vector>

namespace stepagent::agent {

struct Identity {
  std::string run;         // <UTC yyyymmddThhmmss>_<8 hex>
  bool run_given = false;  // by the launcher, a torchrun run or a Slurm step
  std::string session;     // 16 hex digits, random: the only identity; all else are labels
  std::string host;
  std::string exe;  // script or module under Python, without .py
  std::string exe_path;
  std::vector<std::string> argv;
  int32_t rank = -1;
  std::string rank_source = "none";
  std::vector<std::string> rank_conflicts, rank_warnings;  // proto/rank_info.h
  int32_t world_size = -1, local_rank = -1;
  std::string cuda_visible_devices;
  bool has_cuda_visible_devices = false;
  uint64_t process_start_ticks = 0;
  uint64_t title_begin = 0, title_end = 0;  // where the process title lies in memory; 0 unknown
};

[[nodiscard]] Identity ReadIdentity(char* const* environment);
// The process title as it is now (programs rewrite it), at most 256 bytes. Opens no file: a
// descriptor that a thread of ours is just opening makes the application's dup2 over its number
// fail (EBUSY).
[[nodiscard]] std::string ReadTitle(const Identity& identity);

// For tests: the program's name from its arguments.
[[nodiscard]] std::string ProgramName(const std::vector<std::string>& argv,
                                      const std::string& exe_path);

}  // namespace stepagent::agent
