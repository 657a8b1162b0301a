#pragma once
// A loop of training steps with one fault, for readings.
//
// Thread rule: none. Failure rule: none.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/golden/cycles.h"

namespace stepagent::testing {

using model::CallClass;

// Workloads with one fault each. A healthy one raises nothing.
struct Loop {
  int64_t loader_ns = 0;  // host time in a range that launches nothing
  int kernels = 20;
  int64_t kernel_ns = 40'000;
  bool one_long = false, waits_inside = false, pageable = false, collective = false;
  int64_t pause_ns = 0;      // host time in no range at the step's end, the device idle
  int64_t pause_mid_ns = 0;  // the same in the middle of the step
  int64_t copy_ns = 50'000;
  bool two_streams = false;    // every fourth kernel on another stream, never two at once
  int64_t first_extra_ns = 0;  // the first step takes so much longer
  int extra_kernels = 0;       // in the last step
  bool allocates = false;
  const char* range = nullptr;  // around each step's launches
  int steps = 4;
  int64_t between_ns = 0;  // host time between two launches
  int64_t growth_ns = 0;   // each step takes so much longer than the one before
};

inline model::Cycle MakeLoop(const Loop& loop) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(1, "main"), lane = m.Lane(0, 1, 7), side = m.Lane(0, 1, 13);
  const uint32_t shapes[] = {m.Shape("a"), m.Shape("b"), m.Shape("c"), m.Shape("d")};
  const int64_t step_ns = 2'000'000 + loop.loader_ns + loop.pause_ns + loop.pause_mid_ns;
  std::vector<int64_t> begins{1000};
  for (int s = 0; s < loop.steps; ++s) {
    begins.push_back(begins.back() + step_ns + (s == 0 ? loop.first_extra_ns : 0) +
                     s * loop.growth_ns);
    m.Step(static_cast<uint64_t>(s), begins[static_cast<size_t>(s)], begins.back(), thread);
  }
  uint32_t correlation = 1;
  for (int s = 0; s < loop.steps; ++s) {
    const int64_t begin = begins[static_cast<size_t>(s)], end = begins[static_cast<size_t>(s) + 1];
    int64_t host = begin, device = host + loop.loader_ns + 10'000;
    // A step that takes longer for no fault of its device has it busy all the same.
    const int64_t longer = (end - begin - step_ns) / loop.kernels;
    if (loop.range != nullptr) m.Range(loop.range, thread, begin + loop.loader_ns, end - 1000);
    if (loop.allocates) {
      m.Call("cudaMalloc", CallClass::kAlloc, thread, host, host + 2000, correlation++);
      m.Call("cudaMallocAsync", CallClass::kAlloc, thread, host + 2000, host + 3000, correlation++);
    }
    if (loop.loader_ns > 0) m.Range("load_batch", thread, host, host + loop.loader_ns);
    host += loop.loader_ns;
    const int32_t copy = m.Call("cudaMemcpyAsync", CallClass::kMemcpy, thread, host,
                                host + (loop.pageable ? 300'000 : 5000), correlation++);
    model::Copy& c = m.Copy(1, lane, device, device + loop.copy_ns, 1 << 20, copy);
    c.source_kind = loop.pageable ? 1 : 2;
    host += loop.pageable ? 300'000 : 5000, device += loop.copy_ns;
    if (loop.collective) {
      const int32_t call =
          m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, host, host + 5000, correlation++);
      m.Kernel(m.Shape("ncclDevKernel_AllReduce_Sum()"), lane, device, device + 400'000, call);
      host += 6000, device += 400'000;
    }
    const int count = loop.kernels + (s + 1 == loop.steps ? loop.extra_kernels : 0);
    for (int k = 0; k < count; ++k) {
      if (k == loop.kernels / 2 && loop.pause_mid_ns > 0) {
        host = std::max(host, device) + loop.pause_mid_ns;
      }
      const int32_t call =
          m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, host, host + 5000, correlation++);
      device = std::max(device, host + 7000);
      const int64_t length = loop.one_long && k == 0 ? 1'750'000
                             : loop.one_long         ? 5000
                                                     : loop.kernel_ns + longer;
      m.Kernel(loop.one_long && k > 0 ? shapes[1 + k % 3] : shapes[k % 4],
               loop.two_streams && k % 4 == 3 ? side : lane, device, device + length, call);
      host += 6000 + loop.between_ns, device += length;
      if (loop.waits_inside && k % 2 == 1) {
        m.Call("cudaStreamSynchronize", CallClass::kSync, thread, host, device + 1000,
               correlation++);
        host = device + 25'000;
      }
    }
  }
  return m.Finish();
}

}  // namespace stepagent::testing
