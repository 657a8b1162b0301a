#include "collector/writers/folded_profile.h"

#include <algorithm>
#include <type_traits>

#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/stack_frames.h"
#include "collector/writers/work_names.h"

namespace stepagent::writers {
namespace {

constexpr const char* kNoLaunch = "(launch not seen)";

// A trace file that was read need not tell a size; that is no size of 0.
template <typename T>
void AddBytes(const T& item, ProfileValues* values) {
  if constexpr (std::is_same_v<T, model::Copy> || std::is_same_v<T, model::Set>) {
    values->bytes += item.has_bytes ? item.bytes : 0;
    values->transfers += 1;
    values->without_bytes += item.has_bytes ? 0 : 1;
  }
}

}  // namespace

Profile::Profile(const model::Cycle& cycle) : cycle_(cycle), range_work_(cycle) {
  AddCalls();
  AddWork(cycle.kernels,
          [&](const model::Kernel& k) { return ShortKernelName(KernelName(cycle, k)); });
  AddWork(cycle.copies, [](const model::Copy& copy) { return CopyName(copy); });
  AddWork(cycle.sets, [](const model::Set& set) { return SetName(set); });
  AddWork(cycle.graph_launches,
          [](const model::GraphLaunch& launch) { return GraphLaunchName(launch); });
}

std::string Profile::RangePath(int32_t call) const {
  std::string path;
  for (const uint32_t range : range_work_.RangesOf(call)) {
    if (!path.empty()) path += "/";
    path += ValidUtf8(RangeName(cycle_, cycle_.ranges[range]));
  }
  return path;
}

std::vector<ProfileFrame> Profile::Frames(const model::Call& call, int32_t index) const {
  std::vector<ProfileFrame> frames;
  if (const std::vector<model::Frame>* stack = StackOf(cycle_, call); stack != nullptr) {
    for (auto it = stack->rbegin(); it != stack->rend(); ++it) {
      frames.push_back({FrameName(cycle_, *it), &*it});
    }
    return frames;
  }
  for (const uint32_t range : range_work_.RangesOf(index)) {
    frames.push_back({ValidUtf8(RangeName(cycle_, cycle_.ranges[range]))});
  }
  return frames;
}

uint32_t Profile::PathOf(int32_t index) {
  const bool has_call = index >= 0 && static_cast<size_t>(index) < cycle_.calls.size();
  static const model::Call kNone;
  const model::Call& call = has_call ? cycle_.calls[static_cast<size_t>(index)] : kNone;
  const auto open = range_work_.RangesOf(has_call ? index : model::kNoIndex);
  const auto [it, is_new] = known_.try_emplace({open.data(), open.size(), call.stack}, 0);
  if (!is_new) return it->second;
  auto frames = has_call ? Frames(call, index) : std::vector<ProfileFrame>();
  std::string ranges = has_call ? RangePath(index) : std::string();
  const auto [path, is_new_path] =
      path_ids_.try_emplace({frames, ranges}, static_cast<uint32_t>(paths_.size()));
  if (is_new_path) {
    paths_.push_back(std::move(frames));
    ranges_.push_back(std::move(ranges));
  }
  return it->second = path->second;
}

void Profile::AddCalls() {
  for (size_t i = 0; i < cycle_.calls.size(); ++i) {
    const model::Call& call = cycle_.calls[i];
    const ProfileKey key{.path = PathOf(static_cast<int32_t>(i)),
                         .call = ValidUtf8(WithoutVersionSuffix(cycle_.Text(call.name))),
                         .step = call.step};
    ProfileValues& values = samples_[key];
    ++values.calls;
    values.call_ns +=
        static_cast<uint64_t>(std::max<model::TimeNs>(call.end_ns - call.begin_ns, 0));
  }
}

ProfileKey Profile::Key(const model::DeviceItem& item) {
  const bool has_call = item.call >= 0 && static_cast<size_t>(item.call) < cycle_.calls.size();
  const model::Lane& lane = cycle_.lanes[item.lane];
  ProfileKey key{.path = PathOf(item.call),
                 .call = kNoLaunch,
                 .device = lane.device,
                 .stream = lane.stream_index,
                 .step = item.step};
  if (has_call) {
    const model::StringId name = cycle_.calls[static_cast<size_t>(item.call)].name;
    key.call = ValidUtf8(WithoutVersionSuffix(cycle_.Text(name)));
  }
  return key;
}

template <typename T, typename Name>
void Profile::AddWork(const std::vector<T>& items, Name name) {
  for (const T& item : items) {
    if (!IsDrawn(cycle_, item)) continue;
    ProfileKey key = Key(item);
    key.work = ValidUtf8(name(item));
    ProfileValues& values = samples_[key];
    ++values.items;
    values.device_ns += static_cast<uint64_t>(item.end_ns - item.begin_ns);
    AddBytes(item, &values);
  }
}

}  // namespace stepagent::writers
