#pragma once
// Puts converted cycles where the user wants them: one is a file, several are a folder.
//
// Purpose: how many there are is known only at the end, so the first one waits for the second. A
// whole run becomes a folder laid out as a run: traces/cycle-NNNN and
// sessions/<session>/cycle-NNNN. Everything is written into a hidden folder beside OUT first; the
// files take their names when all are there. Thread rule: one owner. Memory: two cycles at most.
// OUT "-" is stdout, which takes one file of one cycle; it is made in the temporary folder first.
// Failure rule: the first error sticks and leaves everything as it was: no file is ever replaced,
// where one of the names is taken none is given, and stdout gets a whole file or nothing.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collector/cli/convert_source.h"

namespace stepagent::cli {

class ConvertOutput {
 public:
  ConvertOutput(std::string format, std::string out);
  ~ConvertOutput();
  ConvertOutput(const ConvertOutput&) = delete;
  ConvertOutput& operator=(const ConvertOutput&) = delete;
  void Take(SourceCycle source);
  void Finish();
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  // The error is one of OUT, which the user named: it cannot be made, or is taken.
  [[nodiscard]] bool is_out_unusable() const { return is_out_unusable_; }

 private:
  [[nodiscard]] bool MakeStage(const std::string& beside);
  void WriteInto(const SourceCycle& source, const std::string& traces, const std::string& folder);
  void WriteNumbered(const SourceCycle& source);
  void WriteAs(const SourceCycle& source);
  [[nodiscard]] std::vector<std::string> WriteFiles(const SourceCycle& source,
                                                    const std::string& traces,
                                                    const std::string& folder);
  void Publish();
  void PublishToStdout();
  [[nodiscard]] bool MakeFolderOf(const std::string& file, std::vector<std::string>* made);
  void FailOut(const std::string& line);

  const std::string format_, out_;
  std::optional<SourceCycle> first_;
  bool has_several_ = false, is_out_unusable_ = false;
  std::string stage_;  // the hidden folder; "" not made
  std::vector<std::pair<std::string, std::string>> staged_;  // where it lies, its name to be
  std::vector<std::string> files_;
  std::string error_;
};

}  // namespace stepagent::cli
