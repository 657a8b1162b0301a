#pragma once
// Whether there is room to go on.
//
// Purpose: recording stops below 10 % free disk and at a run's max-bytes, before anything breaks.
// Thread rule: one per session. Failure rule: a file system that will not say is taken to have
// room.
#include <cstdint>
#include <functional>
#include <string>

namespace stepagent::ingest {

struct DiskSpace {
  uint64_t free_bytes = 0, total_bytes = 0;  // total 0: unknown
};
[[nodiscard]] DiskSpace SpaceOf(const std::string& path);

class DiskGuard {
 public:
  using Probe = std::function<DiskSpace(const std::string&)>;
  explicit DiskGuard(std::string path, Probe probe = SpaceOf)
      : path_(std::move(path)), probe_(std::move(probe)) {}

  // "" to go on, else why not. Looks at the disk at most once a second.
  [[nodiscard]] std::string Check(int64_t now_ns, uint64_t run_bytes, uint64_t max_bytes);

 private:
  std::string path_;
  Probe probe_;
  int64_t next_look_ns_ = 0;
  std::string low_;
};

}  // namespace stepagent::ingest
