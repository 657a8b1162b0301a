#include "collector/model/store.h"

#include <cxxabi.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <set>

#include "proto/limits.h"

namespace stepagent::model {
namespace {

constexpr uint64_t kLargestShownStream = (uint64_t{1} << 31) - 1;
constexpr uint32_t kFirstSmallStream = 1'000'000;
// batch.proto Stacks: ids that say why there is no stack.
constexpr uint32_t kStackTableFull = 1, kStackNotTaken = 2;

// "" when the name is not a mangled one.
std::string Demangle(const std::string& name) {
  if (name.rfind("_Z", 0) != 0) return {};
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? std::string(text.get()) : std::string();
}

uint64_t Mix(uint64_t seed, uint64_t value) {
  return (seed ^ (value + 0x9e3779b97f4a7c15ULL)) * 0xff51afd7ed558ccdULL;
}

uint64_t HashOf(const Shape& s) {
  uint64_t h = s.name;
  for (const auto& triple : {s.grid, s.block, s.cluster}) {
    for (const uint32_t v : triple) h = Mix(h, v);
  }
  h = Mix(h, s.registers_per_thread);
  h = Mix(h, s.static_shared_bytes);
  h = Mix(h, s.dynamic_shared_bytes);
  return Mix(h, s.local_bytes_per_thread);
}

bool SameShape(const Shape& a, const Shape& b) {
  return a.name == b.name && a.grid == b.grid && a.block == b.block && a.cluster == b.cluster &&
         a.registers_per_thread == b.registers_per_thread &&
         a.static_shared_bytes == b.static_shared_bytes &&
         a.dynamic_shared_bytes == b.dynamic_shared_bytes &&
         a.local_bytes_per_thread == b.local_bytes_per_thread;
}

}  // namespace

StringId Dictionary::Append(std::string text) {
  bytes_ += text.size() + sizeof(std::string);
  strings_.push_back(std::move(text));
  return static_cast<StringId>(strings_.size() - 1);
}

void Dictionary::DeclareString(uint32_t wire_id, const std::string& text) {
  if (wire_id == proto::kNoName || string_of_.contains(wire_id)) return;
  const bool is_long = text.size() > proto::kMaxNameBytes;
  string_of_.emplace(wire_id, Append(is_long ? text.substr(0, proto::kMaxNameBytes) : text));
}

StringId Dictionary::String(uint32_t wire_id) {
  if (wire_id == proto::kNoName) return 0;
  const auto found = string_of_.find(wire_id);
  if (found != string_of_.end()) return found->second;
  const StringId id =
      Append(wire_id == proto::kOverflowName ? std::string("(name table full)")
                                             : "(lost name " + std::to_string(wire_id) + ")");
  string_of_.emplace(wire_id, id);
  return id;
}

StringId Dictionary::KernelName(uint32_t wire_id) {
  const StringId id = String(wire_id);
  if (!strings_[id].empty()) return id;
  if (unnamed_ == 0) unnamed_ = Append("(kernel without a name)");
  return unnamed_;
}

void Dictionary::DeclareThread(uint32_t wire_index, uint32_t tid, const std::string& name) {
  Thread& thread = threads_[ThreadIndex(wire_index)];
  thread.tid = tid;
  if (!name.empty()) thread.name = name.substr(0, proto::kMaxNameBytes);
}

uint32_t Dictionary::ThreadIndex(uint32_t wire_index) {
  const auto [at, is_new] = thread_of_.emplace(wire_index, static_cast<uint32_t>(threads_.size()));
  if (is_new) {
    threads_.emplace_back();
    bytes_ += sizeof(Thread);
  }
  return at->second;
}

uint32_t Dictionary::SmallStreamIndex(const Lane& lane) {
  if (lane.stream <= kLargestShownStream) return static_cast<uint32_t>(lane.stream);
  std::set<uint32_t> taken;
  for (const Lane& other : lanes_) {
    if (other.device == lane.device) taken.insert(other.stream_index);
  }
  uint32_t index = kFirstSmallStream;
  while (taken.contains(index)) ++index;
  return index;
}

uint32_t Dictionary::LaneIndex(const Lane& lane) {
  const auto key = std::make_tuple(lane.device, lane.context, lane.stream);
  const auto found = lane_of_.find(key);
  if (found != lane_of_.end()) return found->second;
  const auto index = static_cast<uint32_t>(lanes_.size());
  lane_of_.emplace(key, index);
  lanes_.push_back(lane);
  lanes_.back().stream_index = SmallStreamIndex(lane);
  bytes_ += sizeof(Lane);
  return index;
}

uint32_t Dictionary::ShapeIndex(const Shape& shape) {
  const uint64_t hash = HashOf(shape);
  const auto [first, last] = shape_of_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (SameShape(shapes_[it->second], shape)) return it->second;
  }
  const auto index = static_cast<uint32_t>(shapes_.size());
  shapes_.push_back(shape);
  auto known = demangled_of_.find(shape.name);
  if (known == demangled_of_.end()) {
    std::string text = Demangle(strings_[shape.name]);
    const StringId id = text.empty() ? shape.name : Append(std::move(text));
    known = demangled_of_.emplace(shape.name, id).first;
  }
  shapes_.back().demangled = known->second;
  shape_of_.emplace(hash, index);
  bytes_ += sizeof(Shape);
  return index;
}

void Dictionary::DeclareStack(uint32_t wire_id, std::vector<Frame> frames) {
  if (wire_id == 0 || stack_of_.contains(wire_id)) return;
  stack_of_.emplace(wire_id, static_cast<int32_t>(stacks_.size()));
  bytes_ += frames.size() * sizeof(Frame);
  stacks_.push_back(std::move(frames));
}

int32_t Dictionary::StackIndex(uint32_t wire_id) {
  if (wire_id == kStackTableFull || wire_id == kStackNotTaken) {  // declared by nobody
    if (!stack_of_.contains(wire_id)) {
      Frame word;  // no code, a word on the stack as a whole
      word.name = OwnText(wire_id == kStackTableFull ? "(stack table full)" : "(stack not taken)");
      DeclareStack(wire_id, {word});
    }
  }
  const auto found = stack_of_.find(wire_id);
  return found == stack_of_.end() ? kNoIndex : found->second;
}

StringId Dictionary::OwnText(const std::string& text) {
  if (text.empty()) return 0;
  const auto [it, is_new] = own_texts_.try_emplace(text, 0);
  if (is_new) it->second = Append(text);
  return it->second;
}

}  // namespace stepagent::model
