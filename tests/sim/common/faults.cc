#include "common/faults.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "common/clock.h"
#include "common/settings.h"

namespace stepagent::sim {
namespace {

struct Fault {
  std::string pattern;
  int code = 0;
  uint64_t first = 1;
  uint64_t count = UINT64_MAX;
};

struct FaultScript {
  std::deque<Fault> faults;
  std::mutex mutex;
  std::map<std::string, uint64_t> calls;
};

Fault ParseFault(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    Violation("STEPAGENT_SIM_FAULTS: '%s' lacks =code", text.c_str());
  Fault fault{.pattern = text.substr(0, equals)};
  char* end = nullptr;
  fault.code = static_cast<int>(strtol(text.c_str() + equals + 1, &end, 10));
  if (*end == '@') fault.first = strtoull(end + 1, &end, 10);
  if (*end == 'x') fault.count = strtoull(end + 1, &end, 10);
  if (*end != '\0') Violation("STEPAGENT_SIM_FAULTS: '%s' does not parse", text.c_str());
  return fault;
}

FaultScript& Script() {
  static FaultScript* script = [] {
    auto* made = new FaultScript;
    const std::string text = SettingText("FAULTS");
    size_t at = 0;
    while (at < text.size()) {
      size_t end = text.find(';', at);
      if (end == std::string::npos) end = text.size();
      if (end > at) made->faults.push_back(ParseFault(text.substr(at, end - at)));
      at = end + 1;
    }
    return made;
  }();
  return *script;
}

const std::string& LogPath() {
  static const auto* path = [] { return new std::string(ExpandPath(SettingText("LOG"))); }();
  return *path;
}

}  // namespace

bool HasFaults() {
  static const bool has = !Script().faults.empty();
  return has;
}

bool FaultFor(const char* function, int* code) {
  FaultScript& script = Script();
  const std::lock_guard lock(script.mutex);
  const uint64_t call = ++script.calls[function];
  for (const Fault& fault : script.faults) {
    if (!MatchesGlob(fault.pattern.c_str(), function)) continue;
    if (call < fault.first || call - fault.first >= fault.count) continue;
    *code = fault.code;
    return true;
  }
  return false;
}

bool HasCallLog() { return !LogPath().empty(); }

void LogCall(const char* function, int result) {
  char text[160];
  snprintf(text, sizeof(text), "%s %d", function, result);
  LogText(text);
}

void LogText(const char* text) {
  if (!HasCallLog()) return;
  char line[256];
  const int size =
      snprintf(line, sizeof(line), "%lld %d %ld %s\n", static_cast<long long>(MonotonicNs()),
               static_cast<int>(getpid()), static_cast<long>(syscall(SYS_gettid)), text);
  // No descriptor is kept: programs under test close and replace all of theirs.
  const int fd = open(LogPath().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  if (write(fd, line, static_cast<size_t>(size)) < 0) abort();
  close(fd);
}

}  // namespace stepagent::sim
