#include "collector/writers/occupancy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stepagent::writers {
namespace {

// What CUPTI's device record does not say. From the table of technical specifications per compute
// capability in the CUDA C++ Programming Guide; the allocation units have been the same since 7.0.
struct Architecture {
  uint32_t major, minor;
  uint32_t max_blocks_per_sm;
  uint32_t shared_unit_bytes;
  uint32_t shared_reserved_bytes;  // per block, taken by the system
};
constexpr std::array<Architecture, 9> kArchitectures = {{
    {7, 0, 32, 256, 0},
    {7, 2, 32, 256, 0},
    {7, 5, 16, 256, 0},
    {8, 0, 32, 128, 1024},
    {8, 6, 16, 128, 1024},
    {8, 7, 16, 128, 1024},
    {8, 9, 24, 128, 1024},
    {9, 0, 32, 128, 1024},
    {10, 0, 32, 128, 1024},
}};
constexpr uint64_t kRegisterUnit = 256;  // registers are given to a warp in this unit
constexpr uint64_t kSubPartitions = 4;   // warps of a block spread over this many schedulers

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

const Architecture* Find(const model::DeviceInfo& device) {
  for (const Architecture& a : kArchitectures) {
    if (a.major == device.compute_major && a.minor == device.compute_minor) return &a;
  }
  return nullptr;
}

// How many blocks of this shape one multiprocessor can hold.
std::optional<uint64_t> ResidentBlocks(const model::Shape& shape, const model::DeviceInfo& device,
                                       uint64_t threads) {
  const Architecture* arch = Find(device);
  if (arch == nullptr || device.registers_per_multiprocessor == 0 ||
      device.shared_per_multiprocessor == 0 || shape.registers_per_thread == 0 ||
      !shape.has_shared) {
    return std::nullopt;
  }
  const uint64_t warps = (threads + device.warp_size - 1) / device.warp_size;
  const uint64_t by_warps =
      device.max_threads_per_multiprocessor / device.warp_size / std::max<uint64_t>(warps, 1);
  const uint64_t warp_registers =
      RoundUp(uint64_t{shape.registers_per_thread} * device.warp_size, kRegisterUnit);
  const uint64_t warps_by_registers =
      device.registers_per_multiprocessor / kSubPartitions / warp_registers * kSubPartitions;
  const uint64_t by_registers = warps_by_registers / std::max<uint64_t>(warps, 1);
  const uint64_t shared = RoundUp(uint64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes +
                                      arch->shared_reserved_bytes,
                                  arch->shared_unit_bytes);
  const uint64_t by_shared = shared == 0 ? std::numeric_limits<uint64_t>::max()
                                         : device.shared_per_multiprocessor / shared;
  return std::min({uint64_t{arch->max_blocks_per_sm}, by_warps, by_registers, by_shared});
}

}  // namespace

LaunchFigures ComputeLaunchFigures(const model::Shape& shape, const model::DeviceInfo* device) {
  LaunchFigures out;
  if (device == nullptr || device->multiprocessors == 0 || device->warp_size == 0) return out;
  const double blocks = double(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (blocks == 0 || threads == 0) return out;
  out.blocks_per_sm = blocks / device->multiprocessors;
  out.warps_per_sm = *out.blocks_per_sm * double(threads) / device->warp_size;
  if (device->max_threads_per_multiprocessor == 0) return out;
  const std::optional<uint64_t> resident = ResidentBlocks(shape, *device, threads);
  if (!resident || *resident == 0) return out;
  const double active = std::min(*out.blocks_per_sm, double(*resident));
  const double share = active * double(threads) / device->max_threads_per_multiprocessor;
  out.occupancy_percent = static_cast<int>(std::lround(share * 100));
  return out;
}

}  // namespace stepagent::writers
