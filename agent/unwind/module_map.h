#pragma once
// ModuleMap: which file an address of this process lies in, and where in it.
//
// Purpose: addresses mean something in this process only; a file, its build id and the place within
// it mean the same to the collector and tomorrow.
// Thread rule: one object, one thread (`stepagent`). It reads what is mapped under the loader's own
// lock and opens no file.
// Failure rule: an address in no file (code made at run time, a library gone) is not found.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/name_table.h"

namespace stepagent::unwind {

struct Module {
  core::NameId path = core::kNoName;
  std::string build_id;  // bytes; "" none
  uintptr_t load_address = 0;
  uintptr_t begin = 0, end = 0;  // of what is mapped
  // Our core, CUPTI, the driver or the runtime: leading frames in it are the way from the call to
  // us.
  bool is_below_call = false;
};

class ModuleMap {
 public:
  // Looks whether libraries came or went since the last call. True when one went. False too, with
  // nothing changed, when the loader gate did not open in time.
  bool Refresh();
  // nullptr: in no module.
  [[nodiscard]] const Module* Find(uintptr_t address) const;
  [[nodiscard]] const std::vector<Module>& modules() const { return modules_; }

 private:
  std::vector<Module> modules_;  // by begin
  uint64_t added_ = 0, removed_ = 0;
};

}  // namespace stepagent::unwind
