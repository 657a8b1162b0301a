#pragma once
// What a session has sent and no cycle has taken yet.
//
// Purpose: records in the canonical types, but for two things: device times are still raw stamps
// (mapped when a cycle is assembled), and nothing has a step, call or flow yet.
// Thread rule: belongs to one builder.
// Failure rule: a name, thread, lane or shape that was never declared gets a placeholder.
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::model {

// Dictionaries by the agent's ids. Every batch declares what it uses, so they can be dropped
// whenever no record refers to them any more.
class Dictionary {
 public:
  void DeclareString(uint32_t wire_id, const std::string& text);
  void DeclareThread(uint32_t wire_index, uint32_t tid, const std::string& name);
  [[nodiscard]] StringId String(uint32_t wire_id);
  // A kernel's: one that CUPTI gave no name, or an empty one, is called so.
  [[nodiscard]] StringId KernelName(uint32_t wire_id);
  [[nodiscard]] uint32_t ThreadIndex(uint32_t wire_index);
  [[nodiscard]] uint32_t LaneIndex(const Lane& lane);
  [[nodiscard]] uint32_t ShapeIndex(const Shape& shape);
  void DeclareStack(uint32_t wire_id, std::vector<Frame> frames);
  [[nodiscard]] bool HasStack(uint32_t wire_id) const { return stack_of_.contains(wire_id); }
  [[nodiscard]] int32_t StackIndex(uint32_t wire_id);
  // A text that no agent declared.
  [[nodiscard]] StringId OwnText(const std::string& text);

  [[nodiscard]] const std::vector<std::string>& strings() const { return strings_; }
  [[nodiscard]] const std::vector<Thread>& threads() const { return threads_; }
  [[nodiscard]] const std::vector<Lane>& lanes() const { return lanes_; }
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  [[nodiscard]] const std::vector<std::vector<Frame>>& stacks() const { return stacks_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  StringId Append(std::string text);
  uint32_t SmallStreamIndex(const Lane& lane);

  std::vector<std::string> strings_{std::string()};
  std::unordered_map<uint32_t, StringId> string_of_;
  std::vector<Thread> threads_;
  std::unordered_map<uint32_t, uint32_t> thread_of_;
  std::vector<Lane> lanes_;
  std::map<std::tuple<int32_t, uint32_t, uint64_t>, uint32_t> lane_of_;
  std::vector<Shape> shapes_;
  std::unordered_multimap<uint64_t, uint32_t> shape_of_;  // by hash
  std::unordered_map<StringId, StringId> demangled_of_;
  std::vector<std::vector<Frame>> stacks_;
  std::unordered_map<uint32_t, int32_t> stack_of_;
  StringId unnamed_ = 0;
  std::unordered_map<std::string, StringId> own_texts_;
  uint64_t bytes_ = 0;
};

struct Records {
  std::vector<Call> calls;
  std::vector<Kernel> kernels;
  std::vector<Copy> copies;
  std::vector<Set> sets;
  std::vector<GraphLaunch> graph_launches;
  std::vector<Sync> syncs;
  std::vector<Range> ranges;
  std::vector<Mark> marks;
  std::vector<Overhead> overheads;
  std::vector<MemoryEvent> memories;

  [[nodiscard]] uint64_t Count() const {
    return calls.size() + kernels.size() + copies.size() + sets.size() + graph_launches.size() +
           syncs.size() + ranges.size() + marks.size() + overheads.size() + memories.size();
  }
  [[nodiscard]] uint64_t Bytes() const {
    return calls.capacity() * sizeof(Call) + kernels.capacity() * sizeof(Kernel) +
           copies.capacity() * sizeof(Copy) + sets.capacity() * sizeof(Set) +
           graph_launches.capacity() * sizeof(GraphLaunch) + syncs.capacity() * sizeof(Sync) +
           ranges.capacity() * sizeof(Range) + marks.capacity() * sizeof(Mark) +
           overheads.capacity() * sizeof(Overhead) + memories.capacity() * sizeof(MemoryEvent);
  }
};

// What is known of a call where its device work looks for it. One whose record is gone is kept as
// such: late work must still find that it was launched outside the window at hand.
struct Launch {
  static constexpr int32_t kOutside = -2;  // outside the window
  static constexpr int32_t kLater = -3;    // in a later cycle
  static constexpr int32_t kEarlier = -4;  // in an earlier cycle: outside this one's window

  uint32_t correlation = 0;
  int32_t where = kEarlier;  // index of the call in the cycle, or one of the above
  TimeNs begin_ns = 0;
};

using Counts = std::array<uint64_t, kActivityCount>;

[[nodiscard]] inline Activity ActivityOf(CallClass cls) {
  switch (cls) {
    case CallClass::kSync:
      return Activity::kSync;
    case CallClass::kAlloc:
      return Activity::kMemory;
    default:
      return Activity::kLaunch;
  }
}

}  // namespace stepagent::model
