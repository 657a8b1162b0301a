#pragma once
// DebugInfo: DWARF of one file.
//
// Purpose: functions, inlined ones too, and source lines of an address.
// Thread rule: one object, one thread. Failure rule: what is missing or damaged gives no places.
#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "collector/symbols/symbol_file.h"

namespace stepagent::symbols {

class DebugInfo {
 public:
  // nullptr: there is none, or more than can be read in reasonable time.
  [[nodiscard]] static std::unique_ptr<DebugInfo> Read(Elf* elf);
  ~DebugInfo();
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;

  [[nodiscard]] std::vector<Place> Find(uint64_t address);

 private:
  struct UnitRange {
    uint64_t begin, end;
    Dwarf_Off unit;
  };
  explicit DebugInfo(Dwarf* dwarf) : dwarf_(dwarf) {}
  void ReadUnits();
  [[nodiscard]] const UnitRange* UnitOf(uint64_t address) const;

  Dwarf* dwarf_;
  std::vector<UnitRange> units_;  // by begin
};

}  // namespace stepagent::symbols
