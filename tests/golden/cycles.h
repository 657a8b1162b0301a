#pragma once
// Hand-built cycles, each with one thing that has broken a trace file somewhere.
//
// Purpose: the same inputs for golden files, for the strict checker and for unit tests.
// Thread rule: none.
// Failure rule: an unknown name gives an empty list.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::testing {

// Puts a cycle together in the order of the calls made on it.
class CycleMaker {
 public:
  CycleMaker();
  model::StringId Text(std::string_view text);
  uint32_t Thread(uint32_t tid, const std::string& name);
  uint32_t Lane(int32_t device, uint32_t context, uint64_t stream);
  uint32_t Shape(const std::string& name, std::array<uint32_t, 3> grid = {64, 1, 1},
                 std::array<uint32_t, 3> block = {256, 1, 1});
  int32_t Step(uint64_t index, model::TimeNs begin, model::TimeNs end, uint32_t thread = 0);
  int32_t Call(std::string_view name, model::CallClass cls, uint32_t thread, model::TimeNs begin,
               model::TimeNs end, uint32_t correlation);
  model::Kernel& Kernel(uint32_t shape, uint32_t lane, model::TimeNs begin, model::TimeNs end,
                        int32_t call);
  model::Copy& Copy(uint8_t kind, uint32_t lane, model::TimeNs begin, model::TimeNs end,
                    uint64_t bytes, int32_t call);
  model::Range& Range(std::string_view name, uint32_t thread, model::TimeNs begin,
                      model::TimeNs end, std::string_view domain = "");
  void AddDevice(int32_t ordinal);
  void HostOnly(const std::string& reason);
  // Steps of calls and work, counts, balance.
  model::Cycle Finish();

  model::Cycle cycle;

 private:
  void Join(model::DeviceItem& item);
};

[[nodiscard]] const std::vector<std::string_view>& GoldenNames();
[[nodiscard]] model::Cycle GoldenCycle(std::string_view name);
// The main of a program that is called with a folder: every golden cycle into a folder of its name
// in there. Returns the status to exit with.
[[nodiscard]] int WriteGoldenCases(
    int argc, char** argv,
    const std::function<bool(const std::string& dir, const model::Cycle& cycle)>& write);

}  // namespace stepagent::testing
