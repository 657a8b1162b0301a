#pragma once
// Folded stacks, the input of flame graph tools: one line a path, one file a figure.
//
// Purpose: trace.folded (device time, ns), trace.launches.folded (pieces of work) and
// trace.api_ns.folded (time in calls). Thread rule and failure rule: those of Writer.
#include "collector/writers/writer.h"

namespace stepagent::writers {

class FoldedWriter final : public Writer {
 public:
  [[nodiscard]] std::string_view format() const override { return "folded"; }
  [[nodiscard]] WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) override;
};

}  // namespace stepagent::writers
