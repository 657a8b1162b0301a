#pragma once
// Puts the events of a Kineto file together as a canonical cycle.
//
// Purpose: one row at a time in, a finished cycle out: names and shapes interned, device work
// joined to its call by correlation, steps from ProfilerStep#<n>. Thread rule: one object, one
// thread. Failure rule: rows that lack what they need are counted, never guessed.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::analysis {

struct KinetoEvent {
  std::string ph, cat, name, scope;
  int64_t ts_ns = 0, dur_ns = 0;
  bool has_ts = false, has_dur = false;
  int64_t pid = 0, tid = 0;
  int64_t correlation = -1, stream = -1, device = -1, context = 0, cbid = 0, bytes = 0;
  int64_t from_device = -1, to_device = -1, graph_id = 0, graph_node_id = 0;
  int64_t registers = 0, shared_bytes = 0, sync_stream = -1;
  std::array<uint32_t, 3> grid{}, block{};
  bool contains_tracer_start = false, is_complete = true;
};

class KinetoCycle {
 public:
  void Add(const KinetoEvent& event);
  // Sorts, joins, counts. `file_name` stands for the program, which the file does not name.
  [[nodiscard]] model::Cycle Finish(const std::string& file_name);
  model::Cycle& cycle() { return cycle_; }
  [[nodiscard]] uint64_t unusable_rows() const { return unusable_rows_; }

 private:
  using ShapeKey = std::tuple<model::StringId, std::array<uint32_t, 3>, std::array<uint32_t, 3>,
                              int64_t, int64_t>;
  model::StringId Text(std::string_view text);
  uint32_t Thread(int64_t tid);
  uint32_t Lane(const KinetoEvent& event);
  uint32_t Shape(const KinetoEvent& event);
  void AddCall(const KinetoEvent& event, bool is_driver);
  void AddAnnotation(const KinetoEvent& event);
  bool FillDevice(const KinetoEvent& event, model::DeviceItem* item);
  void AddDevice(const KinetoEvent& event, std::string_view cat);
  void SortAll();
  void DropNestedCalls();
  template <typename T>
  void JoinItems(std::vector<T>& items);
  [[nodiscard]] int32_t StepAt(model::TimeNs at) const;
  void AttributeSteps();
  void SetWindow();
  [[nodiscard]] bool HasDevice() const;
  void SetKinds();

  model::Cycle cycle_;
  uint64_t unusable_rows_ = 0;
  std::map<int64_t, uint64_t> pids_;  // of host rows, with their number
  std::unordered_map<std::string, model::StringId> strings_;
  std::map<int64_t, uint32_t> threads_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> lanes_;
  std::map<ShapeKey, uint32_t> shapes_;
  std::unordered_map<uint32_t, int32_t> call_of_correlation_;
};

}  // namespace stepagent::analysis
