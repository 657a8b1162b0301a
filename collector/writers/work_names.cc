#include "collector/writers/work_names.h"

#include "collector/writers/kineto_names.h"

namespace stepagent::writers {

std::string_view KernelName(const model::Cycle& cycle, const model::Kernel& kernel) {
  if (kernel.shape >= cycle.shapes.size()) return "unknown";
  const model::Shape& shape = cycle.shapes[kernel.shape];
  return cycle.Text(shape.demangled != 0 ? shape.demangled : shape.name);
}

std::string CopyName(const model::Copy& copy) {
  std::string name = "Memcpy ";
  name += CopyKindName(copy.copy_kind);
  name += " (";
  name += MemoryKindName(copy.source_kind);
  name += " -> ";
  name += MemoryKindName(copy.target_kind);
  return name + ")";
}

std::string SetName(const model::Set& set) {
  return "Memset (" + std::string(MemoryKindName(set.memory_kind)) + ")";
}

std::string GraphLaunchName(const model::GraphLaunch& launch) {
  return "CUDA graph " + std::to_string(launch.graph_id);
}

std::string StepName(const model::Step& step) {
  return "ProfilerStep#" + std::to_string(step.index);
}

std::string RangeName(const model::Cycle& cycle, const model::Range& range) {
  const std::string_view text = cycle.Text(range.name);
  return ProfilerStepNumber(text) ? "range " + std::string(text) : std::string(text);
}

bool IsStepRow(const model::Cycle& cycle, const model::Range& range) {
  return range.is_step_range && ProfilerStepNumber(cycle.Text(range.name)).has_value();
}

std::string ShortKernelName(std::string_view demangled) {
  // Operators carry brackets in their names; an anonymous namespace carries a parenthesis.
  if (demangled.find("operator") != std::string_view::npos) return std::string(demangled);
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string word;  // the last one before the parameters, template arguments left out
  int depth = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (demangled.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    if (c == '(' && depth == 0) break;
    if (c == '<') ++depth;
    if (depth == 0) {
      const bool is_border = c == ' ' || c == ':' || c == '*' || c == '&';
      is_border ? word.clear() : word.push_back(c);
    }
    if (c == '>' && depth > 0) --depth;
  }
  return word.empty() ? std::string(demangled) : word;
}

}  // namespace stepagent::writers
