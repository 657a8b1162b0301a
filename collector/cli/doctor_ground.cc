// What can be told before any program is started: files, folders, sockets, variables.
#include <gnu/libc-version.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "collector/cli/doctor_check.h"
#include "collector/launch/library.h"
#include "collector/launch/program.h"
#include "proto/out_folder.h"
#include "proto/shell_word.h"

namespace stepagent::cli {
namespace {

using State = Check::State;
constexpr int kOldestGlibcMinor = 31;
// Below this share of free blocks recording stops (ingest/disk_guard.h).
constexpr uint64_t kLeastFreePercent = 10;
// What the collector may need at once, beside the application (docs/kubernetes.md).
constexpr uint64_t kCollectorBytes = uint64_t{256} << 20;

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string BytesText(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (uint64_t{1} << 30));
  return text;
}

void CheckLibrary(const Ground& ground, Checks* checks) {
  Check check{"library", State::kOk, ground.library, "it is what LD_PRELOAD brings into CMD", ""};
  const std::string folder = Parent(ground.library);
  std::string missing;
  if (ground.library.empty()) {
    check.found = ground.library_error;
    missing = "libstepagent.so";
  } else if (access((folder + "/libstepagent_core.so").c_str(), R_OK) != 0) {
    missing = folder + "/libstepagent_core.so";
    check.found = missing + " is not there";
  }
  if (!missing.empty()) {
    check.state = State::kFailure;
    check.type = "install the package again, or set STEPAGENT_LIB=/path/libstepagent.so";
  }
  checks->push_back(check);
}

void CheckGlibc(Checks* checks) {
  const char* version = gnu_get_libc_version();
  int major = 0, minor = 0;
  Check check{"libc", State::kOk, std::string("glibc ") + version,
              "library and programs need glibc 2.31 or newer", ""};
  const bool is_old = std::sscanf(version, "%d.%d", &major, &minor) != 2 ||
                      (major == 2 && minor < kOldestGlibcMinor);
  if (is_old) {
    check.state = State::kFailure;
    check.type = "use an image of Debian 11, Ubuntu 20.04 or newer";
  }
  checks->push_back(check);
}

void CheckSettings(const Ground& ground, Checks* checks) {
  Check check{"settings", State::kOk, "", "a value that does not parse leaves the library inert",
              ""};
  const std::string disable = ground.environment.Get(proto::kDisableVariable);
  if (proto::IsDisabledValue(disable)) {
    check.state = State::kFailure;
    check.found = "STEPAGENT_DISABLE=" + disable;
    check.why = "with it the library does nothing at all";
    check.type = "unset STEPAGENT_DISABLE";
  } else if (!ground.settings_error.empty()) {
    check.state = State::kFailure;
    check.found = ground.settings_error;
    check.type = "stepagent run --help lists what is allowed";
  } else if (!ground.unknown_variables.empty()) {
    check.state = State::kWarning;
    check.why = "it is ignored";
    for (const std::string& name : ground.unknown_variables)
      check.found += (check.found.empty() ? "" : ", ") + name;
    check.found += ": no such variable";
    check.type = "stepagent run --help lists them";
  } else {
    check.found = std::to_string(ground.settings.given.size()) + " given, all good";
  }
  checks->push_back(check);
}

void CheckInjection(const Ground& ground, Checks* checks) {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    const std::string taken = ground.environment.Get(name);
    const bool is_cuda = name[0] == 'C';
    Check check{is_cuda ? "cuda-injection" : "nvtx-injection", State::kOk,
                std::string(name) + " is free",
                is_cuda ? "the driver loads one tool by it, at cuInit"
                        : "NVTX loads one tool by it, at the first range",
                ""};
    const bool is_ours = taken.ends_with("/libstepagent.so");
    if (!taken.empty()) check.found = std::string(name) + "=" + taken;
    if (!taken.empty() && !is_ours) {
      check.state = State::kFailure;
      check.why += is_cuda ? ": ours would see no device work" : ": ours would see no ranges";
      check.type = std::string("unset ") + name;
    }
    checks->push_back(check);
  }
}

// An address that listens: the collector's, when one is named.
bool Connects(const proto::SocketAddress& address, int* error) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  const bool is_there = fd >= 0 && (connect(fd, raw, address.length) == 0 || errno == EAGAIN);
  *error = is_there ? 0 : errno;
  if (fd >= 0) close(fd);
  return is_there;
}

void CheckCollector(const Ground& ground, Checks* checks) {
  const std::string& collector = ground.settings.collector;
  Check check{"collector", State::kOk, "", "it receives the records and writes the traces", ""};
  if (collector == "auto") {
    const std::string bin = Parent(launch::OwnExecutable());
    const std::string program = bin + "/stepcollector";
    check.found = program + ", started at the first warmup";
    if (access(program.c_str(), X_OK) != 0) {
      check.state = State::kFailure;
      check.found = program + ": " + std::strerror(errno);
      check.type = "install the package again";
    }
  } else {
    int error = 0;
    const auto address = proto::AddressFromText(collector);
    check.found = collector + " listens";
    if (!address || !Connects(*address, &error)) {
      check.state = State::kFailure;
      check.found = collector + ": " + std::strerror(error);
      check.type = "stepcollector --socket " + proto::ShellWord(collector) + " --out " +
                   proto::ShellWord(ground.settings.out) + ", or unset STEPAGENT_COLLECTOR";
    }
  }
  checks->push_back(check);
}

void CheckSocket(const Ground& ground, Checks* checks) {
  const std::string folder = proto::SocketFolder(ground.dirs);
  Check check{"socket", State::kOk, "", "`stepagent start` reaches processes by it", ""};
  const std::string existing = folder.empty() ? "" : proto::ExistingFolder(folder);
  const bool is_asked = !ground.dirs.stepagent_runtime_dir.empty();
  if (!folder.empty() && access(existing.c_str(), W_OK | X_OK) == 0) {
    check.found = folder;
  } else if (is_asked) {
    check.state = State::kWarning;
    check.found = "STEPAGENT_RUNTIME_DIR=" + ground.dirs.stepagent_runtime_dir + ": " +
                  (folder.empty() ? "not absolute" : std::strerror(errno)) +
                  "; an abstract name is used";
    check.type = "set it to an absolute folder that can be written to, or unset it";
  } else {
    check.found = "an abstract name (no folder to write to, and none is needed)";
  }
  checks->push_back(check);
}

void CheckOutput(const Ground& ground, Checks* checks) {
  const std::string& out = ground.settings.out;
  Check check{"output", State::kOk, out, "every trace goes there", ""};
  if (const std::string why = proto::WhyNotCreatable(out); !why.empty()) {
    check.state = State::kFailure;
    check.found = why;
    check.type = proto::OutFolderCure();
  } else if (!proto::IsFolder(out)) {
    check.found += " (will be made)";
  }
  checks->push_back(check);
}

void CheckDisk(const Ground& ground, Checks* checks) {
  std::string folder = proto::ExistingFolder(ground.settings.out);
  struct statvfs space {};
  Check check{"disk", State::kOk, "", "recording stops below 10 % of free space", ""};
  if (!proto::IsFolder(folder)) folder = Parent(folder);
  if (statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) {
    check.state = State::kWarning;
    check.found = folder + ": its free space cannot be told";
    checks->push_back(check);
    return;
  }
  const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  const uint64_t percent = uint64_t{space.f_bavail} * 100 / space.f_blocks;
  check.found = BytesText(free_bytes) + " free (" + std::to_string(percent) + " %) at " + folder;
  if (percent < kLeastFreePercent) {
    check.state = State::kFailure;
    check.type = "free some, or --out DIR on another file system";
  } else if (ground.settings.max_bytes != 0 && free_bytes < ground.settings.max_bytes) {
    check.state = State::kWarning;
    check.why = "a run may write " + BytesText(ground.settings.max_bytes);
    check.type = "--max-bytes " + std::to_string(free_bytes / 2);
  }
  checks->push_back(check);
}

// The tighter of cgroup v2 and v1, of this process's own group as a container sees it.
uint64_t MemoryLeft() {
  const auto number = [](const char* path) -> uint64_t {
    FILE* file = std::fopen(path, "re");
    uint64_t value = 0;
    const bool is_number = file != nullptr && std::fscanf(file, "%" SCNu64, &value) == 1;
    if (file != nullptr) std::fclose(file);
    return is_number ? value : UINT64_MAX;
  };
  const uint64_t limit2 = number("/sys/fs/cgroup/memory.max");
  const uint64_t limit1 = number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const bool is_v2 = limit2 != UINT64_MAX;
  const uint64_t limit = is_v2 ? limit2 : limit1;
  if (limit >= uint64_t{1} << 60) return UINT64_MAX;  // v1's "no limit"
  const uint64_t used = number(is_v2 ? "/sys/fs/cgroup/memory.current"
                                     : "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return used == UINT64_MAX ? UINT64_MAX : limit - std::min(limit, used);
}

void CheckMemory(Checks* checks) {
  const uint64_t left = MemoryLeft();
  Check check{"memory", State::kOk, "no limit of this container is known",
              "the collector may need 256 MiB beside the application", ""};
  if (left != UINT64_MAX) check.found = BytesText(left) + " left of this container's limit";
  if (left < kCollectorBytes) {
    check.state = State::kWarning;
    check.why += "; it is the first to go when memory is short";
    check.type = "raise the memory limit by 256 MiB, or run stepcollector as a sidecar";
  }
  checks->push_back(check);
}

void CheckCommand(const Ground& ground, Checks* checks) {
  if (ground.command.empty()) return;
  const std::string path = ground.environment.Get("PATH");
  const launch::Program program =
      launch::InspectProgram(ground.command[0], path.empty() ? "/bin:/usr/bin" : path);
  Check check{"command", State::kOk, program.checked, "the loader must let the library in", ""};
  if (program.found != launch::Found::kYes) {
    check.state = State::kFailure;
    check.found = ground.command[0] + ": " +
                  std::strerror(program.found == launch::Found::kMissing ? ENOENT : EACCES);
    check.why = "there is nothing to trace";
    check.type = "the command as the shell finds it, or its path";
  } else if (const std::string warning = launch::ProgramWarning(program); !warning.empty()) {
    check.state = State::kFailure;
    check.found = warning;
    check.type = program.is_secure ? "a copy of it without that bit, or sudo in front of stepagent"
                                   : "a build of it that is linked dynamically against glibc";
  }
  checks->push_back(check);
}

}  // namespace

Ground SurveyGround(const launch::SettingArgs& taken, char* const* environment) {
  Ground ground;
  ground.environment = launch::Environment(environment);
  ground.given = taken.settings;
  ground.command = taken.command;
  ground.settings = proto::DefaultSettings();
  ground.dirs = proto::RuntimeDirsFromEnvironment(environment);
  auto error = proto::ApplyEnvironment(environment, &ground.settings, &ground.unknown_variables);
  for (const auto& [name, value] : taken.settings)
    if (!error) error = proto::ApplySetting("--" + name, value, &ground.settings);
  if (!error) error = proto::CheckTogether(ground.settings);
  if (error) ground.settings_error = error->Line();
  proto::Settings& s = ground.settings;
  s.out = launch::AbsolutePath(s.out);
  if (s.collector != "auto" && s.collector[0] != '@')
    s.collector = launch::AbsolutePath(s.collector);
  launch::Library library =
      launch::FindLibrary(launch::OwnExecutable(), ground.environment.Get("STEPAGENT_LIB"));
  if (!library.path.empty()) library = launch::PreloadableLibrary(library.path, ground.dirs);
  ground.library = library.path;
  ground.library_error = library.error;
  return ground;
}

Checks CheckGround(const Ground& ground) {
  Checks checks;
  CheckLibrary(ground, &checks);
  CheckGlibc(&checks);
  CheckSettings(ground, &checks);
  CheckInjection(ground, &checks);
  CheckCollector(ground, &checks);
  CheckSocket(ground, &checks);
  CheckOutput(ground, &checks);
  CheckDisk(ground, &checks);
  CheckMemory(&checks);
  CheckCommand(ground, &checks);
  return checks;
}

}  // namespace stepagent::cli
