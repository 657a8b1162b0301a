#include "collector/launch/progress_bar.h"

#include <unistd.h>

#include <algorithm>

namespace stepagent::launch {
namespace {

constexpr auto kShownAfter = std::chrono::seconds(1);
constexpr uint64_t kBarColumns = 30;

void WriteAll(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) < 0) return;  // nothing depends on it
}

}  // namespace

std::string ProgressLine(const std::string& what, uint64_t done, uint64_t total, uint64_t seconds) {
  const uint64_t shown = std::min(done, total);
  const uint64_t filled = total == 0 ? 0 : kBarColumns * shown / total;
  return what + " [" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "] " +
         std::to_string(shown) + "/" + std::to_string(total) + "  " + std::to_string(seconds) +
         " s";
}

ProgressBar::ProgressBar(int fd, std::string what, Clock::time_point begin)
    : fd_(isatty(fd) ? fd : -1), what_(std::move(what)), begin_(begin) {}

ProgressBar::~ProgressBar() {
  if (is_shown_) WriteAll(fd_, "\r\x1b[K");
}

void ProgressBar::Show(uint64_t done, uint64_t total, Clock::time_point now) {
  if (fd_ < 0 || now - begin_ < kShownAfter) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  WriteAll(fd_, "\r" + ProgressLine(what_, done, total, static_cast<uint64_t>(seconds)) + "\x1b[K");
  is_shown_ = true;
}

}  // namespace stepagent::launch
