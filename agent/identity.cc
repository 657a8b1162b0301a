#include "agent/identity.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>
#include <string_view>

#include "proto/process_files.h"
#include "proto/rank_info.h"
#include "proto/run_name.h"

namespace stepagent::agent {
namespace {

constexpr size_t kMostTitleBytes = 256;
// A pool in a worker of a pool behind a fork server is as deep as anybody goes.
constexpr int kMostPoolParents = 5;

std::vector<std::string> ReadArguments(const std::string& process) {
  const std::string text = proto::ReadFile("/proc/" + process + "/cmdline", 64 * 1024);
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\0', at);
    out.emplace_back(text, at, end == std::string::npos ? std::string::npos : end - at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return out;
}

std::string ReadExePath(const std::string& process) {
  char path[4096];
  const ssize_t n = readlink(("/proc/" + process + "/exe").c_str(), path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
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

uint64_t Random64() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) == sizeof value) return value;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  value = static_cast<uint64_t>(t.tv_nsec) ^ (static_cast<uint64_t>(t.tv_sec) << 30);
  value ^= static_cast<uint64_t>(getpid()) << 48;
  return value * 0x9E3779B97F4A7C15U;
}

// A helper of multiprocessing's pools, or a worker: its program text is Python's, not the user's.
bool IsPoolWorker(const std::vector<std::string>& argv) {
  return std::any_of(argv.begin(), argv.end(), [](const std::string& argument) {
    return argument == "--multiprocessing-fork" || argument.starts_with("from multiprocessing.");
  });
}

// The script that made the pool: its own process, or the fork server between, is the parent.
std::string NameOfPool(const std::string& interpreter) {
  auto pid = static_cast<uint64_t>(getppid());
  for (int i = 0; i < kMostPoolParents && pid > 1; ++i) {
    const std::string process = std::to_string(pid);
    const std::vector<std::string> argv = ReadArguments(process);
    const std::string exe = ReadExePath(process);
    const std::string bare = BaseName(exe.empty() && !argv.empty() ? argv[0] : exe);
    if (!IsPython(bare)) break;
    if (!IsPoolWorker(argv)) return ProgramName(argv, exe);
    pid =
        proto::StatField(proto::ReadFile("/proc/" + process + "/stat", 4096), proto::kParentField);
  }
  return interpreter;
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

Identity ReadIdentity(char* const* environment) {
  Identity id;
  const uint64_t random = Random64();
  id.session = proto::Hex(random, 16);
  id.run = proto::RunName(environment, random >> 7, &id.run_given);
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) id.host = host;
  if (id.host.empty()) id.host = "localhost";
  id.argv = ReadArguments("self");
  id.exe_path = ReadExePath("self");
  id.exe = ProgramName(id.argv, id.exe_path);
  if (IsPoolWorker(id.argv)) id.exe = NameOfPool(id.exe);
  const proto::RankInfo rank = proto::ReadRank(environment);
  id.rank = rank.rank;
  id.rank_source = rank.source;
  id.rank_conflicts = rank.conflicts;
  id.rank_warnings = rank.warnings;
  id.world_size = rank.world_size;
  id.local_rank = rank.local_rank;
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    id.has_cuda_visible_devices |= std::strncmp(*e, "CUDA_VISIBLE_DEVICES=", 21) == 0;
  }
  id.cuda_visible_devices = proto::Variable(environment, "CUDA_VISIBLE_DEVICES");
  const std::string stat = proto::ReadFile("/proc/self/stat", 4096);
  id.process_start_ticks = proto::StatField(stat, proto::kStartTimeField);
  id.title_begin = proto::StatField(stat, proto::kArgStartField);
  id.title_end = proto::StatField(stat, proto::kArgEndField);
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
