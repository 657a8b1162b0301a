#pragma once
// One line on a terminal that says how far a wait is.
//
// Purpose: shown only on a terminal, and only once a wait takes longer than a second; erased at its
// end, so nothing of it stays in a log.
// Thread rule: one thread. Failure rule: a terminal that cannot be written to shows nothing.
#include <chrono>
#include <cstdint>
#include <string>

namespace stepagent::launch {

class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;
  ProgressBar(int fd, std::string what, Clock::time_point begin);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Show(uint64_t done, uint64_t total, Clock::time_point now);

 private:
  const int fd_;
  const std::string what_;
  const Clock::time_point begin_;
  bool is_shown_ = false;
};

[[nodiscard]] std::string ProgressLine(const std::string& what, uint64_t done, uint64_t total,
                                       uint64_t seconds);

}  // namespace stepagent::launch
