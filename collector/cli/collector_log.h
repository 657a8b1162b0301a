#pragma once
// stepcollector's log.
//
// Purpose: stderr by hand; for a run's own collector, whose stderr leads nowhere, a file in the run
// folder that only exists when something was wrong.
// Thread rule: any thread may log. Failure rule: a log that cannot be written is silent.
#include <memory>
#include <string>

#include "spdlog/logger.h"

namespace stepagent::cli {

class LateFileSink;

class CollectorLog {
 public:
  // `setting`: "off error warn info debug", optionally ":file". False: said on stderr what is
  // wrong.
  [[nodiscard]] bool Open(const std::string& setting, bool is_daemon);
  void SetRunFolder(const std::string& run_path);
  [[nodiscard]] const std::shared_ptr<spdlog::logger>& logger() const { return logger_; }

 private:
  std::shared_ptr<spdlog::logger> logger_;
  std::shared_ptr<LateFileSink> late_;
};

}  // namespace stepagent::cli
