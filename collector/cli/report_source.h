#pragma once
// Turns what a user names (OUT, run, session, cycle, raw file, Kineto file) into summaries.
//
// Purpose: one list of cycles, whatever the path was; an interrupted session is finished first.
// Thread rule: one object, one thread.
// Failure rule: what cannot be read is a line in `problems`; nothing throws for bad content.
#include <string>
#include <vector>

#include "collector/analysis/cost.h"
#include "nlohmann/json.hpp"

namespace stepagent::cli {

struct ReportedCycle {
  std::string origin;              // the path it was read from
  nlohmann::ordered_json summary;  // stepagent.summary/1
  std::vector<std::string> files;  // traces, absolute
};

class ReportSource {
 public:
  void Add(const std::string& path);

  [[nodiscard]] const std::vector<ReportedCycle>& cycles() const { return cycles_; }
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  // Paths that could not be read at all.
  [[nodiscard]] size_t unreadable() const { return unreadable_; }

 private:
  void AddFile(const std::string& path);
  void AddFolder(const std::string& path);
  void AddOut(const std::string& path);
  void RepeatProblems(const std::string& session_dir);
  void RemarkDeferred(const std::string& session_dir);
  void AddRun(const std::string& path);
  void RemarkRanks(const std::string& run);
  void AddSession(const std::string& path);
  void AddCycle(const std::string& path, const std::string& run_dir);
  void AddTraces(const std::string& path, const std::vector<std::string>& names);
  void AddRaw(const std::string& path);
  void AddLaterSteps(const analysis::RecordedSteps& recorded, const model::LaterSteps& later,
                     bool goes_on);
  void AddKineto(const std::string& path);
  void Recover(const std::string& path);
  void Take(std::string origin, nlohmann::ordered_json summary, std::vector<std::string> files);
  void Unreadable(std::string line);

  std::vector<ReportedCycle> cycles_;
  std::vector<std::string> problems_, remarks_;
  size_t unreadable_ = 0;
};

}  // namespace stepagent::cli
