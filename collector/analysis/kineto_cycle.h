#pragma once
// Puts the events of a Kineto file together as a canonical cycle.
//
// Purpose: one row at a time in, a finished cycle out: names and shapes interned, device work
// joined to its call by correlation, steps from ProfilerStep#<n>. Thread rule: one object, one
// thread. Failure rule: rows that lack what they need are counted, never guessed.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::analysis {

// What the row does not tell, or tells impossibly, is nullopt.
struct KinetoEvent {
  using Triple = std::array<uint32_t, 3>;
  std::string ph, cat, name;
  int64_t ts_ns = 0, dur_ns = 0;
  bool has_ts = false, has_dur = false;
  int64_t pid = 0, tid = 0;
  std::optional<int64_t> correlation, stream, device, context, cbid, bytes, from_device, to_device,
      graph_id, graph_node_id, registers, shared_bytes, process_step, waited_event;
  std::optional<Triple> grid, block;
  std::string domain;  // this and the flags: of our own files
  bool contains_tracer_start = false, is_complete = true, is_partial = false;
  bool is_start_end = false, is_cut_at_begin = false, is_cut_at_end = false;
  bool is_failed = false, is_captured = false;
  bool has_refused = false;  // a value of its own, which is told elsewhere
};

class KinetoCycle {
 public:
  // Whether rows of that category are used at all.
  [[nodiscard]] static bool Reads(std::string_view cat);
  void Add(const KinetoEvent& event);
  // Sorts, joins, counts. `file_name` stands for the program, which the file does not name.
  [[nodiscard]] model::Cycle Finish(const std::string& file_name);
  model::Cycle& cycle() { return cycle_; }
  // What rows could not be used, a line each. `is_whole`: all of the file's were added.
  [[nodiscard]] std::vector<std::string> RowProblems(bool is_whole) const;
  // What was found that is no fault of a single row, one sentence each: after Finish.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  // In call_of_correlation_: several calls have that number, nobody can say whose work it is.
  static constexpr int32_t kAmbiguous = -2;
  using ShapeKey =
      std::tuple<model::StringId, std::optional<KinetoEvent::Triple>,
                 std::optional<KinetoEvent::Triple>, std::optional<int64_t>, std::optional<int64_t>>;
  model::StringId Text(std::string_view text);
  uint32_t Thread(const KinetoEvent& event);
  uint32_t Lane(const KinetoEvent& event);
  uint32_t Shape(const KinetoEvent& event);
  void AddCall(const KinetoEvent& event, bool is_driver);
  void AddAnnotation(const KinetoEvent& event);
  void AddOverhead(const KinetoEvent& event);
  void AddUnusable(const KinetoEvent& event);
  void AddSync(const KinetoEvent& event);
  bool FillDevice(const KinetoEvent& event, model::DeviceItem* item);
  void AddDevice(const KinetoEvent& event, std::string_view cat);
  void SortAll();
  void KeepOneProcess();
  void DropWorkOfOthers(const std::vector<model::Call>& others);
  void DropNestedCalls();
  void IndexCalls();
  [[nodiscard]] bool IsSameCall(const model::Call& a, const model::Call& b) const;
  template <typename T>
  void JoinItems(std::vector<T>& items);
  void JoinSyncs();
  void AttributeSteps();
  void SetWindow();
  [[nodiscard]] bool HasDevice() const;
  void SetKinds();
  void NoteAmbiguous();

  model::Cycle cycle_;
  uint64_t unusable_rows_ = 0, half_rows_ = 0;
  std::string first_unusable_;
  bool has_any_ = false;              // any row of the categories that are read
  std::map<int64_t, uint64_t> pids_;  // of host rows, with their number
  std::unordered_map<std::string, model::StringId> strings_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> threads_;  // by pid and tid
  std::vector<int64_t> pid_of_thread_;
  std::map<std::tuple<int64_t, std::optional<int64_t>, int64_t>, uint32_t> lanes_;
  std::map<ShapeKey, uint32_t> shapes_;
  std::unordered_map<uint32_t, int32_t> call_of_correlation_;  // kAmbiguous: of several
  uint64_t ambiguous_rows_ = 0;
  uint32_t first_ambiguous_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace stepagent::analysis
