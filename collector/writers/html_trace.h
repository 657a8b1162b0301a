#pragma once
// The time line of a page, as one JSON value written piece by piece.
//
// Purpose: lanes, threads, steps, calls, device work, ranges, marks and idle gaps as flat lists of
// numbers with the texts once, so that a hundred thousand items are a few megabytes. Times are ns
// from `origin_ns`; a begin is the difference to the item before. html/model.js reads it.
// Thread rule: one object, one thread. Failure rule: errors stay in the OutputFile.
// Memory: one number a call, one a text; the gaps of each device while they are chosen.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collector/analysis/device_time.h"
#include "collector/model/cycle.h"
#include "collector/writers/html_choice.h"
#include "collector/writers/row_text.h"

namespace stepagent::writers {

class HtmlTrace {
 public:
  HtmlTrace(const model::Cycle& cycle, OutputFile& file, uint64_t drawn_limit,
            const std::function<void(uint64_t, uint64_t)>& progress);
  void Write();
  // Calls, device work and ranges that are drawn singly.
  [[nodiscard]] uint64_t drawn() const { return choice_.taken(); }

 private:
  enum BundleKind : uint32_t { kOfWork, kOfCopies, kOfCalls, kOfRanges };

  void Measure();
  void Head();
  void Steps();
  void Calls();
  template <typename T, typename Ref, typename More>
  void Work(const char* key, BundleKind kind, const std::vector<T>& items, Ref ref, More more);
  void DeviceItems();
  void Ranges();
  void Instants();
  void Overheads();
  void Busy();
  void Gaps(const analysis::DeviceTime& device);
  void Shapes();
  void Texts();

  // Begins `"key":[`; Row() then opens an item of a flat list.
  void Open(const char* key);
  void Close() { text_.Literal("]"); }
  void Row(size_t variable_bytes = 0);
  template <typename... Numbers>
  void Flat(Numbers... numbers);
  void RawText(const std::string& json);
  int64_t FromLast(model::TimeNs begin_ns);
  [[nodiscard]] int64_t FromOrigin(model::TimeNs ns) const { return ns - origin_ns_; }
  Bundler MakeBundler(BundleKind kind, size_t rows);
  void Count();

  uint32_t Text(model::StringId id);
  uint32_t Extra(std::string text);
  uint32_t CallName(model::StringId id);
  uint32_t ShapeRef(uint32_t shape);

  const model::Cycle& cycle_;
  const analysis::DeviceWork work_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  RowText text_;
  const uint64_t limit_;
  LongestChoice choice_;
  model::TimeNs origin_ns_ = 0, from_ns_ = 0, to_ns_ = 0, last_ns_ = 0;
  int64_t bin_ns_ = 1;
  bool is_first_ = true;
  uint64_t done_ = 0;
  std::string bundles_;                   // gathered while the items are written
  std::vector<int32_t> ordinal_of_call_;  // -1: not drawn singly
  std::vector<int32_t> text_of_, call_name_of_, shape_of_;
  std::vector<uint32_t> shapes_;
  std::vector<std::string> texts_;
  std::map<std::string, uint32_t> extra_;
};

template <typename... Numbers>
void HtmlTrace::Flat(Numbers... numbers) {
  Row();
  bool first = true;
  const auto one = [&](auto number) {
    if (!first) text_.Literal(",");
    first = false;
    text_.Number(number);
  };
  (one(numbers), ...);
}

}  // namespace stepagent::writers
