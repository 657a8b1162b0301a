#include "agent/drain/stack_rows.h"

#include <algorithm>

#include "agent/drain/message_writer.h"
#include "agent/unwind/stack_capture.h"

namespace stepagent::drain {
namespace {

using unwind::StackTable;

// A frame is at most: two tags and lengths, a kind, an address of 9 bytes and a file.
constexpr size_t kFrameBytes = 16;
constexpr size_t kModuleBytes = 32;

}  // namespace

StackRows::StackRows() : resolver_(&unwind::StackCapture::table()) {}

uint32_t StackRows::FrameIndex(const unwind::ResolvedFrame& frame) {
  bool is_new;
  uint32_t file = 0;
  if (frame.module != 0) {
    file = modules_.Find({frame.module}, &is_new) + 1;
    if (is_new) bytes_ += kModuleBytes;
  }
  const uint32_t index =
      frames_.Find({Pair(file, static_cast<uint32_t>(frame.kind)), frame.address}, &is_new);
  if (is_new) bytes_ += kFrameBytes;
  return index;
}

void StackRows::Declare(uint32_t id) {
  // Ids are places in the table; anything beyond it is no id and need not be remembered.
  if (id <= StackTable::kNotTaken || id >= StackTable::kWords) return;
  if (id >= mark_.size()) mark_.resize(std::max<size_t>(id + 1, mark_.size() * 2), 0);
  mark_[id] = generation_;
  const unwind::ResolvedStack* stack = resolver_.Resolve(id);
  if (stack == nullptr) return;
  Row row{.id = id, .truncated = stack->truncated, .frames = {}};
  row.frames.reserve(stack->frames.size());
  for (const unwind::ResolvedFrame& frame : stack->frames) row.frames.push_back(FrameIndex(frame));
  bytes_ += 2 * row.frames.size() + 12;
  rows_.push_back(std::move(row));
}

void StackRows::WriteFrames(protozero::pbf_builder<wire::Stacks>* message) const {
  for (const auto& key : frames_.keys()) {
    protozero::pbf_builder<wire::Frame> frame(*message, wire::Stacks::frames);
    PutUint(&frame, wire::Frame::kind, High(key[0]));
    PutUint(&frame, wire::Frame::address, key[1]);
    PutUint(&frame, wire::Frame::file, Low(key[0]));
  }
  for (uint32_t i = 0; i < modules_.size(); ++i) {
    const unwind::ModuleName& module = resolver_.modules()[modules_.keys()[i][0] - 1];
    protozero::pbf_builder<wire::Module> file(*message, wire::Stacks::modules);
    PutUint(&file, wire::Module::path, i < paths_.size() ? paths_[i] : core::kNoName);
    PutBytes(&file, wire::Module::build_id, module.build_id);
  }
}

void StackRows::Write(BatchWriter* batch) const {
  if (rows_.empty()) return;
  protozero::pbf_builder<wire::Stacks> message(*batch, wire::Batch::stacks);
  std::vector<uint32_t> ids;
  for (const Row& row : rows_) ids.push_back(row.id);
  message.add_packed_uint32(wire::Stacks::id, ids.begin(), ids.end());
  for (const Row& row : rows_) {
    protozero::pbf_builder<wire::Stack> stack(message, wire::Stacks::stack);
    if (!row.frames.empty()) {
      stack.add_packed_uint32(wire::Stack::frame, row.frames.begin(), row.frames.end());
    }
    PutBool(&stack, wire::Stack::truncated, row.truncated);
  }
  WriteFrames(&message);
}

void StackRows::Clear() {
  if (++generation_ == 0) {  // marks of 2^32 batches ago would look fresh
    std::fill(mark_.begin(), mark_.end(), 0);
    generation_ = 1;
  }
  rows_.clear();
  frames_.Clear();
  modules_.Clear();
  paths_.clear();
  bytes_ = 0;
}

}  // namespace stepagent::drain
