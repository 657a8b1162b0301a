#include "agent/guard/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/limits.h"

namespace stepagent::guard {
namespace {

using proto::LogLevel;

LogLevel g_level = LogLevel::kWarn;
char g_file[proto::kMaxNameBytes];
dev_t g_device;
ino_t g_inode;
bool g_has_stderr = false;

bool StderrIsStillOurs() noexcept {
  struct stat now;
  return g_has_stderr && fstat(STDERR_FILENO, &now) == 0 && now.st_dev == g_device &&
         now.st_ino == g_inode;
}

}  // namespace

void StartLog(LogLevel level, std::string_view file) noexcept {
  const int saved = errno;
  g_level = level;
  g_file[0] = '\0';
  if (!file.empty() && file.size() < sizeof g_file) {
    std::memcpy(g_file, file.data(), file.size());
    g_file[file.size()] = '\0';
  }
  struct stat now;
  g_has_stderr = fstat(STDERR_FILENO, &now) == 0;
  if (g_has_stderr) {
    g_device = now.st_dev;
    g_inode = now.st_ino;
  }
  errno = saved;
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
  } else if (StderrIsStillOurs()) {
    [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line, head + length + 1);
  }
  errno = saved;
}

}  // namespace stepagent::guard
