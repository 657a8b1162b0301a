#include "agent/unwind/stack_resolver.h"

#include <algorithm>
#include <utility>

#include "agent/unwind/frame_chain.h"

namespace stepagent::unwind {

void StackResolver::Refresh() {
  if (!map_.Refresh()) return;
  table_->NewEpoch();
  FrameChain::Forget();
}

void StackResolver::WatchUnloads() {
  if (!stacks_.empty()) Refresh();
}

uint32_t StackResolver::IndexOf(const Module& module) {
  const ModuleName name{module.path, module.build_id};
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    names_.push_back(name);
    return static_cast<uint32_t>(names_.size());
  }
  return static_cast<uint32_t>(found - names_.begin()) + 1;
}

ResolvedFrame StackResolver::FrameOf(uintptr_t address, bool* is_below_call) {
  // The call before the return address: a call at a function's very end returns past it.
  const Module* module = map_.Find(address - 1);
  ResolvedFrame frame;
  frame.address = address;
  *is_below_call = module != nullptr && module->is_below_call;
  if (module == nullptr) return frame;
  frame.module = IndexOf(*module);
  frame.address = address - module->load_address;
  return frame;
}

const ResolvedStack* StackResolver::Resolve(uint32_t id) {
  const auto known = stacks_.find(id);
  if (known != stacks_.end()) return &known->second;
  const StackTable::View view = table_->Get(id);
  if (view.count == 0) return nullptr;
  Refresh();  // it may run through a library that was just loaded
  ResolvedStack stack;
  stack.truncated = view.truncated;
  stack.frames.reserve(view.count);
  for (uint32_t i = 0; i < view.count; ++i) {
    bool is_below_call;
    const ResolvedFrame frame = FrameOf(view.frames[i], &is_below_call);
    if (is_below_call && stack.frames.empty()) continue;
    stack.frames.push_back(frame);
  }
  return &stacks_.emplace(id, std::move(stack)).first->second;
}

}  // namespace stepagent::unwind
