#pragma once
// StackResolver: ids of stacks to frames that mean something outside this process.
//
// Purpose: each address becomes a place in a file; the drain puts that on the wire. The leading
// frames within the driver, CUPTI and us are left out: which call it was is in the call's record,
// and how CUPTI came from there to our callback is nobody's business. Thread rule: one object, one
// thread (`stepagent`). Failure rule: an address in no file keeps its value and has no module; an
// id the table does not know has no stack.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/unwind/module_map.h"
#include "agent/unwind/stack_table.h"

namespace stepagent::unwind {

// A list of frames, of more than one kind: Python's come later, between the native ones.
struct ResolvedFrame {
  enum class Kind : uint8_t { kNative = 1, kPython = 2 };  // batch.proto Frame.Kind
  Kind kind = Kind::kNative;
  uint32_t module = 0;   // 0: in no file; else index into modules() + 1
  uint64_t address = 0;  // of the instruction after the call: within the file, else as it is
  bool operator==(const ResolvedFrame&) const = default;
};
struct ResolvedStack {
  std::vector<ResolvedFrame> frames;  // leaf first
  bool truncated = false;
};
struct ModuleName {
  core::NameId path = core::kNoName;
  std::string build_id;
  bool operator==(const ModuleName&) const = default;
};

class StackResolver {
 public:
  explicit StackResolver(StackTable* table) : table_(table) {}
  // nullptr: no such stack. The answer stays where it is.
  [[nodiscard]] const ResolvedStack* Resolve(uint32_t id);
  // Every round while stacks are taken: after a library was unloaded stacks get new ids.
  void WatchUnloads();
  // Grows only.
  [[nodiscard]] const std::vector<ModuleName>& modules() const { return names_; }

 private:
  void Refresh();
  [[nodiscard]] ResolvedFrame FrameOf(uintptr_t address, bool* is_below_call);
  [[nodiscard]] uint32_t IndexOf(const Module& module);

  StackTable* const table_;
  ModuleMap map_;
  std::vector<ModuleName> names_;
  std::unordered_map<uint32_t, ResolvedStack> stacks_;
};

}  // namespace stepagent::unwind
