#pragma once
// Device work added up by how it came about: stack or ranges, call, kernel.
//
// Purpose: the common input of folded text and pprof. A sample's frames are those of the launch's
// stack where one was taken, else the ranges open at the launch; then the call, then the work. Work
// whose launch was not seen stands under "(launch not seen)".
// Thread rule: one object, one thread. Memory: one entry per distinct path, stream and step, not
// per record. Failure rule: none.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "collector/analysis/range_work.h"
#include "collector/model/cycle.h"

namespace stepagent::writers {

struct ProfileFrame {
  std::string name;
  const model::Frame* native = nullptr;  // where it is a frame of a stack
  // Two calls in one function are two frames.
  [[nodiscard]] auto Key() const {
    return std::make_tuple(std::string_view(name), native == nullptr ? 0 : native->address,
                           native == nullptr ? 0 : native->module);
  }
  auto operator<=>(const ProfileFrame& other) const { return Key() <=> other.Key(); }
  bool operator==(const ProfileFrame& other) const { return Key() == other.Key(); }
};
struct ProfileKey {
  uint32_t path = 0;  // index into paths()
  std::string call, work;
  int32_t device = -1;  // -1: a call alone
  uint32_t stream = 0;
  int32_t step = model::kNoStep;
  auto operator<=>(const ProfileKey&) const = default;
};
struct ProfileValues {
  uint64_t items = 0, device_ns = 0, calls = 0, call_ns = 0;
  // Of copies and sets: how many, the bytes of those whose size is known, how many have none.
  uint64_t transfers = 0, bytes = 0, without_bytes = 0;
};

class Profile {
 public:
  explicit Profile(const model::Cycle& cycle);

  [[nodiscard]] const std::map<ProfileKey, ProfileValues>& samples() const { return samples_; }
  // Frames, outermost first.
  [[nodiscard]] const std::vector<std::vector<ProfileFrame>>& paths() const { return paths_; }
  // The ranges of a path joined by '/', also where its frames are a stack's.
  [[nodiscard]] const std::string& Ranges(uint32_t path) const { return ranges_[path]; }

 private:
  template <typename T, typename Name>
  void AddWork(const std::vector<T>& items, Name name);
  void AddCalls();
  uint32_t PathOf(int32_t call);
  [[nodiscard]] std::vector<ProfileFrame> Frames(const model::Call& call, int32_t index) const;
  [[nodiscard]] std::string RangePath(int32_t call) const;
  ProfileKey Key(const model::DeviceItem& item);

  const model::Cycle& cycle_;
  const analysis::RangeWork range_work_;
  std::vector<std::vector<ProfileFrame>> paths_;
  std::vector<std::string> ranges_;
  std::map<std::pair<std::vector<ProfileFrame>, std::string>, uint32_t> path_ids_;
  // Calls of one set of open ranges share its memory: that address and the stack say the path.
  std::map<std::tuple<const uint32_t*, size_t, int32_t>, uint32_t> known_;
  std::map<ProfileKey, ProfileValues> samples_;
};

}  // namespace stepagent::writers
