#pragma once
// StackRows: the stacks that a batch's calls refer to.
//
// Purpose: every batch declares the stacks it uses, their frames once each and the files these lie
// in: any batch may be lost. Launches of a loop share most frames, so a stack costs a byte or two a
// frame beyond them.
// Thread rule: belongs to one builder.
// Failure rule: an id that no stack has is not declared; a reader shows the call without a stack.
#include <cstdint>
#include <vector>

#include "agent/drain/columns.h"
#include "agent/drain/dictionary.h"
#include "agent/unwind/stack_resolver.h"

namespace stepagent::drain {

class StackRows {
 public:
  StackRows();

  // Declares the stack in the batch at hand. `use_name` hears of each file's path that it needs and
  // says under which name the batch is to hold it.
  template <typename UseName>
  void Use(uint32_t id, UseName&& use_name) {
    if (id < mark_.size() && mark_[id] == generation_) [[likely]]
      return;
    Declare(id);
    while (paths_.size() < modules_.size()) {
      const uint64_t module = modules_.keys()[paths_.size()][0];
      paths_.push_back(use_name(resolver_.modules()[module - 1].path));
    }
  }
  void WatchUnloads() { resolver_.WatchUnloads(); }

  [[nodiscard]] size_t bytes() const { return bytes_; }
  void Write(BatchWriter* batch) const;
  void Clear();

 private:
  struct Row {
    uint32_t id;
    bool truncated;
    std::vector<uint32_t> frames;  // indices into frames_
  };
  void Declare(uint32_t id);
  [[nodiscard]] uint32_t FrameIndex(const unwind::ResolvedFrame& frame);
  void WriteFrames(protozero::pbf_builder<wire::Stacks>* message) const;

  unwind::StackResolver resolver_;
  std::vector<Row> rows_;
  Dictionary<2> frames_;             // {kind and the batch's file number, address}
  Dictionary<1> modules_;            // {the resolver's file number}
  std::vector<core::NameId> paths_;  // of modules_
  // A stack is in the batch when its mark is the batch's generation.
  std::vector<uint32_t> mark_;
  uint32_t generation_ = 1;
  size_t bytes_ = 0;
};

}  // namespace stepagent::drain
