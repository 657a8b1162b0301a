#include "agent/guard/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "proto/limits.h"

namespace stepagent::guard {
namespace {

using proto::LogLevel;

LogLevel g_level = LogLevel::kWarn;
char g_file[proto::kMaxNameBytes];
int (*g_stderr_is_ours)() = nullptr;

constexpr char kHead[] = "stepagent: ";
constexpr size_t kLineBytes = 1024;

void ToStderr(const char* line, size_t bytes) noexcept {
  if (g_stderr_is_ours == nullptr || g_stderr_is_ours() == 0) return;
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line, bytes);
}

// "stepagent: <text>\n", cut to fit; returns its length.
size_t MakeLine(std::string_view text, char* line) noexcept {
  const size_t head = sizeof kHead - 1;
  const size_t room = kLineBytes - head - 1;
  const size_t length = text.size() < room ? text.size() : room;
  std::memcpy(line, kHead, head);
  std::memcpy(line + head, text.data(), length);
  line[head + length] = '\n';
  return head + length + 1;
}

// Said once; from then on the lines go to stderr, where they are not lost.
void GiveUpFile(int error) noexcept {
  char text[kLineBytes], reason[128], line[kLineBytes];
  const int length = std::snprintf(text, sizeof text, "--log: %s: %s; its lines come here instead",
                                   g_file, strerror_r(error, reason, sizeof reason));
  g_file[0] = '\0';
  if (length <= 0) return;
  const size_t bytes = static_cast<size_t>(length);
  ToStderr(line, MakeLine({text, bytes < sizeof text ? bytes : sizeof text - 1}, line));
}

// Why lines cannot be appended to the file, or 0; without making it.
int WhyNotWritable() noexcept {
  if (access(g_file, F_OK) == 0) return access(g_file, W_OK) == 0 ? 0 : errno;
  char folder[sizeof g_file];
  std::memcpy(folder, g_file, sizeof folder);
  char* slash = std::strrchr(folder, '/');
  if (slash == nullptr) std::memcpy(folder, ".", 2);
  if (slash != nullptr) slash[slash == folder ? 1 : 0] = '\0';
  return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

}  // namespace

void StartLog(LogLevel level, std::string_view file, int (*stderr_is_ours)()) noexcept {
  const int saved = errno;
  g_level = level;
  g_file[0] = '\0';
  g_stderr_is_ours = stderr_is_ours;
  if (!file.empty() && file.size() < sizeof g_file && level != LogLevel::kOff) {
    std::memcpy(g_file, file.data(), file.size());
    g_file[file.size()] = '\0';
    if (const int error = WhyNotWritable()) GiveUpFile(error);
  }
  errno = saved;
}

bool WouldLog(LogLevel level) noexcept { return level != LogLevel::kOff && level <= g_level; }

void Log(LogLevel level, std::string_view text) noexcept {
  if (!WouldLog(level)) return;
  const int saved = errno;
  char line[kLineBytes];
  const size_t bytes = MakeLine(text, line);
  // Opened for each line: no descriptor of ours stays in the application's table.
  const int fd = g_file[0] == '\0'
                     ? -1
                     : open(g_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
  if (fd < 0 && g_file[0] != '\0') GiveUpFile(errno);
  if (fd >= 0) {
    [[maybe_unused]] const ssize_t ignored = write(fd, line, bytes);
    close(fd);
  } else {
    ToStderr(line, bytes);
  }
  errno = saved;
}

}  // namespace stepagent::guard
