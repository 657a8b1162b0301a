#pragma once
// A writer: one output format, as a pure function of a cycle.
//
// Purpose: every format behind one interface; the list in registry is what --formats accepts.
// Thread rule: a writer object is used by one thread; different ones may run side by side.
// Failure rule: Write returns an Error with path and errno text; a file gets its final name only
// when whole (output_file.h), so a failed writer leaves nothing under the final name.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::writers {

struct WrittenFile {
  std::string path;    // absolute
  std::string format;  // chrome perfetto sqlite html folded pprof
  uint64_t bytes = 0;
  uint64_t events = 0;  // complete (X) rows or records
  std::string sha256;   // hex
};
struct WriteResult {
  bool ok = false;
  std::string error;  // "path: what: errno text"
  std::vector<WrittenFile> files;
};
struct WriteTarget {
  std::string traces_dir;  // OUT/<run>/traces/cycle-NNNN
  std::string cycle_dir;   // OUT/<run>/sessions/<…>/cycle-NNNN
  std::string trace_stem;  // <exe>_<host>_rank<R>[_<pid>].<cycle>
  std::function<void(uint64_t done, uint64_t total)> progress;  // may be empty
};

class Writer {
 public:
  virtual ~Writer() = default;
  [[nodiscard]] virtual std::string_view format() const = 0;
  [[nodiscard]] virtual WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) = 0;
};

// nullptr: no such format.
[[nodiscard]] std::unique_ptr<Writer> MakeWriter(std::string_view format);
[[nodiscard]] std::vector<std::string_view> KnownFormats();

}  // namespace stepagent::writers
