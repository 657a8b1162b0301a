#include "collector/ingest/disk_guard.h"

#include <sys/statvfs.h>

namespace stepagent::ingest {
namespace {

constexpr uint64_t kReservePercent = 10;
constexpr int64_t kLookIntervalNs = 1'000'000'000;

}  // namespace

DiskSpace SpaceOf(const std::string& path) {
  struct statvfs st {};
  if (statvfs(path.c_str(), &st) != 0) return {};
  return {.free_bytes = uint64_t{st.f_bavail} * st.f_frsize,
          .total_bytes = uint64_t{st.f_blocks} * st.f_frsize};
}

std::string DiskGuard::Check(int64_t now_ns, uint64_t run_bytes, uint64_t max_bytes) {
  if (max_bytes != 0 && run_bytes >= max_bytes) {
    return "max-bytes reached: the run holds " + std::to_string(run_bytes) + " of " +
           std::to_string(max_bytes) + " bytes";
  }
  if (now_ns < next_look_ns_) return low_;
  next_look_ns_ = now_ns + kLookIntervalNs;
  const DiskSpace space = probe_(path_);
  const bool is_low =
      space.total_bytes != 0 && space.free_bytes < space.total_bytes / 100 * kReservePercent;
  low_ = is_low ? path_ + ": less than " + std::to_string(kReservePercent) +
                      " % of the disk free (" + std::to_string(space.free_bytes >> 20) + " MiB)"
                : std::string();
  return low_;
}

}  // namespace stepagent::ingest
