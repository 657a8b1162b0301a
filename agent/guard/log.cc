#include "agent/guard/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/limits.h"

namespace stepagent::guard {
namespace {

using proto::LogLevel;

LogLevel g_level = LogLevel::kWarn;
char g_file[proto::kMaxNameBytes];
int (*g_stderr_is_ours)() = nullptr;

}  // namespace

void StartLog(LogLevel level, std::string_view file, int (*stderr_is_ours)()) noexcept {
  g_level = level;
  g_file[0] = '\0';
  if (!file.empty() && file.size() < sizeof g_file) {
    std::memcpy(g_file, file.data(), file.size());
    g_file[file.size()] = '\0';
  }
  g_stderr_is_ours = stderr_is_ours;
}

bool WouldLog(LogLevel level) noexcept { return level != LogLevel::kOff && level <= g_level; }

void Log(LogLevel level, std::string_view text) noexcept {
  if (!WouldLog(level)) return;
  const int saved = errno;
  char line[1024] = "stepagent: ";
  const size_t head = std::strlen(line);
  const size_t room = sizeof line - head - 1;
  const size_t length = text.size() < room ? text.size() : room;
  std::memcpy(line + head, text.data(), length);
  line[head + length] = '\n';
  if (g_file[0] != '\0') {
    // Opened for each line: no descriptor of ours stays in the application's table.
    const int fd = open(g_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd >= 0) {
      [[maybe_unused]] const ssize_t ignored = write(fd, line, head + length + 1);
      close(fd);
    }
  } else if (g_stderr_is_ours != nullptr && g_stderr_is_ours() != 0) {
    [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line, head + length + 1);
  }
  errno = saved;
}

}  // namespace stepagent::guard
