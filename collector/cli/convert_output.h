#pragma once
// Puts converted cycles where the user wants them: one is a file, several are a folder.
//
// Purpose: how many there are is known only at the end, so the first one waits for the second. A
// whole run becomes a folder laid out as a run: traces/cycle-NNNN and
// sessions/<session>/cycle-NNNN. Thread rule: one owner. Memory: two cycles at most. Failure rule:
// the first error sticks; files that are whole stay, none is ever replaced.
#include <optional>
#include <string>
#include <vector>

#include "collector/cli/convert_source.h"

namespace stepagent::cli {

class ConvertOutput {
 public:
  ConvertOutput(std::string format, std::string out);
  void Take(SourceCycle source);
  void Finish();
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void WriteInto(const SourceCycle& source, const std::string& traces, const std::string& folder);
  void WriteNumbered(const SourceCycle& source);
  void WriteAs(const SourceCycle& source, const std::string& file);
  [[nodiscard]] std::vector<std::string> WriteFiles(const SourceCycle& source,
                                                    const std::string& traces,
                                                    const std::string& folder);

  const std::string format_, out_;
  std::optional<SourceCycle> first_;
  bool has_several_ = false;
  std::vector<std::string> files_;
  std::string error_;
};

}  // namespace stepagent::cli
