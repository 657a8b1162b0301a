#pragma once
// Formats the rows of a Chrome file, one model event at a time.
//
// Purpose: everything that repeats (names, shapes, streams) is prepared text; per row only
// numbers are formatted.
// Thread rule: one object, one thread.
// Failure rule: errors stay in the OutputFile.
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/row_text.h"

namespace stepagent::writers {

struct Place {  // where a row goes
  int64_t pid = 0, tid = 0;
};

struct Annotation {  // a range projected onto one device row: begin of its first to end of its last
                     // work
  model::TimeNs begin_ns = 0, end_ns = 0;
  uint32_t row = 0;    // ChromeTracks device row
  uint32_t range = 0;  // index into Cycle::ranges
};

// The number that a call's row, its device rows and its arrows share.
[[nodiscard]] inline uint32_t FlowId(const model::Call& call) {
  return call.flow_id != 0 ? call.flow_id : call.correlation;
}

// Ends the text of a lane; the number follows.
inline constexpr std::string_view kCorrelationKey = ",\"correlation\":";

class ChromeRows {
 public:
  ChromeRows(const model::Cycle& cycle, RowText& text, int64_t base_unix_ns);

  void Metadata(const char* what, Place place, bool has_tid, const char* key,
                const std::string& json_value);
  void Step(const model::Step& step, std::string_view own_text, Place place);
  void Range(const model::Range& range, Place place);
  void Mark(const model::Mark& mark, Place place);
  void Call(const model::Call& call, Place place);
  void Overhead(const model::Overhead& overhead, Place place);
  void Annotate(const Annotation& annotation, Place place);
  void Kernel(const model::Kernel& kernel, Place place);
  void Copy(const model::Copy& copy, Place place);
  void Set(const model::Set& set, Place place);
  void GraphLaunch(const model::GraphLaunch& launch, Place place);
  void Sync(const model::Sync& sync, Place place);
  // An arrow from a call's row to its device work's row.
  void Flow(const model::Call& call, Place from, const model::DeviceItem& item, Place to);

  [[nodiscard]] uint64_t complete_rows() const { return complete_rows_; }
  [[nodiscard]] uint64_t rows() const { return rows_; }

 private:
  struct ShapeText {
    std::string head, tail;
    int32_t device = -1;
    bool is_ready = false;
  };
  void Head(const char* cat, const std::string& name, Place place, model::TimeNs begin,
            model::TimeNs end);
  void Next(size_t variable_bytes);
  void PlaceAndTime(Place place, model::TimeNs begin, model::TimeNs end);
  void DeviceArgs(const model::DeviceItem& item, bool is_kernel);
  void GraphArgs(const model::DeviceItem& item);
  void StepArg(int32_t step, bool is_first = false);
  void EndRow();
  void TextArg(const char* key, const std::string& json_value, bool& is_first);
  const std::string& Name(model::StringId id);
  const std::string& CallHead(const model::Call& call);
  const std::string& CallStack(const model::Call& call);
  const ShapeText& ShapeOf(const model::Kernel& kernel);
  void PrepareShape(const model::Shape& shape, int32_t device, ShapeText& text);
  void Bandwidth(uint64_t bytes, const model::DeviceItem& item);
  [[nodiscard]] uint32_t Correlation(const model::DeviceItem& item);
  const model::DeviceInfo* Device(int32_t ordinal) const;

  const model::Cycle& cycle_;
  RowText& text_;
  const int64_t offset_ns_;  // session clock -> ns after the base
  uint64_t next_flow_id_;    // for calls with more than one piece of work
  uint64_t rows_ = 0, complete_rows_ = 0;
  std::vector<std::string> names_;          // by StringId, quoted; "" not prepared yet
  std::vector<std::string> call_heads_[2];  // by StringId: driver, runtime
  std::vector<std::string> call_stacks_;    // by stack, quoted; "" not prepared yet
  std::vector<ShapeText> shapes_;
  std::vector<std::string> lane_args_, lane_kernel_args_;  // by lane
  std::unordered_set<uint32_t> call_ids_;                  // only filled when an orphan needs it
  std::vector<bool> has_first_flow_;                       // by call
};

}  // namespace stepagent::writers
