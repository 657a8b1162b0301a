#pragma once
// KernelStream: an endless, repeatable stream of kernels as a training loop makes them.
//
// Purpose: 300 kernels with their launch shapes, used in the order of a layered model over three
// streams; starts advance by 2 to 200 us, kernels of one stream never overlap.
// Thread rule: one thread. Failure rule: cannot fail.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepagent::bench {

struct StreamedKernel {
  uint64_t start_ns, end_ns;
  uint32_t stream, correlation, name;  // name: 0 .. kNames-1
  std::array<uint32_t, 3> grid, block;
  uint32_t registers, static_shared, dynamic_shared;
};

class KernelStream {
 public:
  static constexpr uint32_t kNames = 300;

  KernelStream();
  StreamedKernel Next();
  // About 100 characters each, as demangled C++ names are.
  [[nodiscard]] static std::string Name(uint32_t name);

 private:
  struct Shape {
    std::array<uint32_t, 3> grid, block;
    uint32_t registers, static_shared, dynamic_shared, duration_ns;
  };
  uint64_t Random();

  uint64_t state_ = 0x9E3779B97F4A7C15U;
  uint64_t now_ns_ = 1'790'000'000'000'000'000U;
  uint32_t correlation_ = 1000;
  std::vector<Shape> shapes_;
  std::vector<uint32_t> sequence_;
  uint64_t at_ = 0;
  std::array<uint64_t, 3> last_end_{};
};

}  // namespace stepagent::bench
