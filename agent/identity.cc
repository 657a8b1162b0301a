#include "agent/identity.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <ctime>
#include <optional>
#include <string_view>

namespace stepagent::agent {
namespace {

constexpr int kStartTimeField = 22, kArgStartField = 48, kArgEndField = 49;  // proc(5)
constexpr size_t kMostTitleBytes = 256;

std::string_view Variable(char* const* environment, std::string_view name) {
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry(*e);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

std::optional<int32_t> Number(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::string ReadFile(const char* path, size_t most) {
  std::string out;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return out;
  out.resize(most);
  size_t used = 0;
  while (used < most) {
    const ssize_t n = read(fd, out.data() + used, most - used);
    if (n <= 0) break;
    used += static_cast<size_t>(n);
  }
  close(fd);
  out.resize(used);
  return out;
}

std::vector<std::string> ReadArguments() {
  const std::string text = ReadFile("/proc/self/cmdline", 64 * 1024);
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\0', at);
    out.emplace_back(text, at, end == std::string::npos ? std::string::npos : end - at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return out;
}

std::string ReadExePath() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

// A numeric field of /proc/PID/stat, counted from 1; 0 unknown.
uint64_t StatField(const std::string& stat, int wanted) {
  // The name in field 2 may hold spaces, so count from the last ')'.
  size_t at = stat.rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = 2; field < wanted; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return 0;
  }
  uint64_t value = 0;
  std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), value);
  return value;
}

std::string BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool IsPython(std::string_view name) {
  if (!name.starts_with("python") && !name.starts_with("pypy")) return false;
  for (char c : name.substr(name.starts_with("python") ? 6 : 4)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != '.' && c != 'd' && c != 't') {
      return false;
    }
  }
  return true;
}

std::string WithoutPy(std::string name) {
  if (name.size() > 3 && name.ends_with(".py")) name.resize(name.size() - 3);
  return name;
}

std::string Hex(uint64_t value, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, value >>= 4) out[static_cast<size_t>(i)] = kDigits[value & 15];
  return out;
}

uint64_t Random64() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) == sizeof value) return value;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  value = static_cast<uint64_t>(t.tv_nsec) ^ (static_cast<uint64_t>(t.tv_sec) << 30);
  value ^= static_cast<uint64_t>(getpid()) << 48;
  return value * 0x9E3779B97F4A7C15U;
}

uint64_t Fnv(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::string UtcStamp(time_t when) {
  tm parts;
  if (gmtime_r(&when, &parts) == nullptr) return "19700101T000000";
  char text[32];
  strftime(text, sizeof text, "%Y%m%dT%H%M%S", &parts);
  return text;
}

// When the parent (torchrun's agent, slurmstepd) started: the same for every process of the run here.
time_t ParentStart() {
  const std::string stat =
      ReadFile(("/proc/" + std::to_string(getppid()) + "/stat").c_str(), 4096);
  const uint64_t ticks = StatField(stat, kStartTimeField);
  const long per_second = sysconf(_SC_CLK_TCK);
  timespec boot, real;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_REALTIME, &real);
  if (ticks == 0 || per_second <= 0) return real.tv_sec;
  return real.tv_sec - boot.tv_sec + static_cast<time_t>(ticks / static_cast<uint64_t>(per_second));
}

std::string MakeRun(char* const* environment, uint64_t random, bool* given) {
  const std::string_view from_launcher = Variable(environment, "STEPAGENT_RUN");
  *given = true;
  if (!from_launcher.empty() && from_launcher.size() <= 64 &&
      from_launcher.find('/') == std::string_view::npos && from_launcher[0] != '.') {
    return std::string(from_launcher);
  }
  const std::string key = SharedRunKey(environment);
  if (!key.empty()) return UtcStamp(ParentStart()) + "_" + Hex(Fnv(key), 8);
  *given = false;
  return UtcStamp(time(nullptr)) + "_" + Hex(random, 8);
}

}  // namespace

std::string ProgramName(const std::vector<std::string>& argv, const std::string& exe_path) {
  const std::string exe = BaseName(exe_path.empty() && !argv.empty() ? argv[0] : exe_path);
  if (!IsPython(exe)) return exe.empty() ? "unknown" : exe;
  // Options that take a value in the next argument.
  static constexpr std::string_view kWithValue[] = {"-W", "-X", "--check-hash-based-pycs"};
  for (size_t i = 1; i < argv.size(); ++i) {
    const std::string& arg = argv[i];
    if (arg == "-m" && i + 1 < argv.size()) return argv[i + 1];
    if (arg.starts_with("-m") && arg.size() > 2) return arg.substr(2);
    if (arg == "-c" || arg == "-") break;
    bool takes_value = false;
    for (std::string_view option : kWithValue) takes_value |= arg == option;
    if (takes_value) ++i;
    if (takes_value || arg.starts_with("-")) continue;
    const std::string name = WithoutPy(BaseName(arg));
    if (!name.empty() && name != "__main__") return name;
    return name.empty() ? BaseName(arg) : BaseName(arg.substr(0, arg.rfind('/')));
  }
  return exe;
}

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
  if (info.local_rank < 0) info.local_rank = Number(Variable(environment, "LOCAL_RANK")).value_or(-1);
  return info;
}

std::string SharedRunKey(char* const* environment) {
  const std::string_view elastic = Variable(environment, "TORCHELASTIC_RUN_ID");
  if (!elastic.empty()) {
    return "torchrun/" + std::string(elastic) + "/" +
           std::string(Variable(environment, "MASTER_ADDR")) + "/" +
           std::string(Variable(environment, "MASTER_PORT"));
  }
  const std::string_view job = Variable(environment, "SLURM_JOB_ID");
  const std::string_view step = Variable(environment, "SLURM_STEP_ID");
  if (!job.empty() && !step.empty()) return "slurm/" + std::string(job) + "/" + std::string(step);
  const std::string_view open_mpi = Variable(environment, "OMPI_MCA_ess_base_jobid");
  if (!open_mpi.empty()) return "ompi/" + std::string(open_mpi);
  return {};
}

Identity ReadIdentity(char* const* environment) {
  Identity id;
  const uint64_t random = Random64();
  id.session = Hex(random, 16);
  id.run = MakeRun(environment, random >> 7, &id.run_given);
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) id.host = host;
  if (id.host.empty()) id.host = "localhost";
  id.argv = ReadArguments();
  id.exe_path = ReadExePath();
  id.exe = ProgramName(id.argv, id.exe_path);
  const RankInfo rank = ReadRank(environment);
  id.rank = rank.rank;
  id.rank_source = rank.source;
  id.rank_conflicts = rank.conflicts;
  id.world_size = rank.world_size;
  id.local_rank = rank.local_rank;
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    id.has_cuda_visible_devices |= std::strncmp(*e, "CUDA_VISIBLE_DEVICES=", 21) == 0;
  }
  id.cuda_visible_devices = Variable(environment, "CUDA_VISIBLE_DEVICES");
  const std::string stat = ReadFile("/proc/self/stat", 4096);
  id.process_start_ticks = StatField(stat, kStartTimeField);
  id.title_begin = StatField(stat, kArgStartField);
  id.title_end = StatField(stat, kArgEndField);
  return id;
}

std::string ReadTitle(const Identity& identity) {
  std::string text;
  if (identity.title_end > identity.title_begin) {
    text.resize(std::min<uint64_t>(identity.title_end - identity.title_begin, kMostTitleBytes));
    // Asks the kernel for our own memory: an answer, not a fault, where it is no longer mapped.
    const iovec into = {text.data(), text.size()};
    const iovec from = {reinterpret_cast<void*>(identity.title_begin), text.size()};
    const ssize_t got = process_vm_readv(getpid(), &into, 1, &from, 1, 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  }
  if (text.empty()) {
    for (const std::string& argument : identity.argv) text += argument + " ";
  }
  if (text.size() > kMostTitleBytes) text.resize(kMostTitleBytes);
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

}  // namespace stepagent::agent
