#include "collector/cli/collector_log.h"

#include <cstdio>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "spdlog/sinks/base_sink.h"
#include "spdlog/sinks/basic_file_sink.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace stepagent::cli {
namespace {

// Lines from before the folder is known; more would mean that no folder ever comes.
constexpr size_t kMaxEarlyLines = 100;

}  // namespace

// Opens <run>/collector.log at the first line.
class LateFileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ~LateFileSink() override {
    if (fd_ >= 0) close(fd_);
  }
  void SetFolder(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    if (!folder_.empty()) return;
    folder_ = folder;
    for (const std::string& line : early_) Put(line);
    early_.clear();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    const std::string line(text.data(), text.size());
    if (!folder_.empty()) {
      Put(line);
    } else if (early_.size() < kMaxEarlyLines) {
      early_.push_back(line);
    }
  }
  void flush_() override {}

 private:
  void Put(const std::string& line) {
    if (fd_ < 0) {
      const std::string path = folder_ + "/collector.log";
      fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    }
    if (fd_ >= 0 && write(fd_, line.data(), line.size()) < 0) return;  // nobody left to tell
  }

  std::string folder_;
  std::vector<std::string> early_;
  int fd_ = -1;
};

bool CollectorLog::Open(const std::string& setting, bool is_daemon) {
  const size_t colon = setting.find(':');
  const std::string name = setting.substr(0, colon);
  const std::string file = colon == std::string::npos ? std::string() : setting.substr(colon + 1);
  spdlog::level::level_enum level = spdlog::level::off;
  if (name == "error") level = spdlog::level::err;
  if (name == "warn") level = spdlog::level::warn;
  if (name == "info") level = spdlog::level::info;
  if (name == "debug") level = spdlog::level::debug;
  if (level == spdlog::level::off && name != "off") {
    std::fprintf(stderr, "stepcollector: --log: '%s': allowed: off error warn info debug[:file]\n",
                 setting.c_str());
    return false;
  }
  spdlog::sink_ptr sink;
  if (!file.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex& error) {
      std::fprintf(stderr, "stepcollector: --log: %s\n", error.what());
      return false;
    }
  } else if (is_daemon) {
    late_ = std::make_shared<LateFileSink>();
    late_->set_level(spdlog::level::warn);
    sink = late_;
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  logger_ = std::make_shared<spdlog::logger>("stepcollector", std::move(sink));
  logger_->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger_->set_level(level);
  logger_->flush_on(spdlog::level::debug);
  return true;
}

void CollectorLog::SetRunFolder(const std::string& run_path) {
  if (late_) late_->SetFolder(run_path);
}

}  // namespace stepagent::cli
