#pragma once
// The backend on the simulated libraries: launches, windows, what came of them.
//
// Thread rule: one test at a time. Failure rule: skipped where there is no simulated device.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/cupti/api_table.h"
#include "agent/cupti/cupti_backend.h"
#include "agent/cupti/kinds.h"
#include "tests/unit/agent_cupti/backend_fixture.h"
#include "tests/unit/agent_cupti/recording_sink.h"
#include "tests/unit/agent_cupti/rival.h"

namespace stepagent::cupti {

using core::CallClass;

class BackendOnSim : public testing::Test {
 protected:
  void SetUp() override {
    if (!TheFixture().is_usable) GTEST_SKIP() << "no simulated device on the loader's path";
  }
  void TearDown() override {
    Record(false);
    if (!TheFixture().is_usable) return;
    TheFixture().cuda.CtxSynchronize();
    Backend().Disarm();
    Backend().Decode(&sink_);
    Backend().Release();
    (void)TakeCalls();
  }

  static SimDriver& Cuda() { return TheFixture().cuda; }
  static void Record(bool on) {
    core::g_words->bits.store(on ? uint32_t{core::kBitCalls} : 0U, std::memory_order_relaxed);
  }
  static CUresult Launch(CUstream stream = nullptr) {
    return Cuda().LaunchKernel(TheFixture().kernel, 4, 2, 1, 128, 1, 1, 256, stream, nullptr,
                               nullptr);
  }
  static void Copy() {
    char host[64] = {};
    ASSERT_EQ(Cuda().MemcpyHtoD(TheFixture().memory, host, sizeof(host)), CUDA_SUCCESS);
  }
  static void Set() { ASSERT_EQ(Cuda().MemsetD8(TheFixture().memory, 7, 64), CUDA_SUCCESS); }

  static std::vector<core::Record> TakeCalls() {
    std::vector<core::Record> records;
    core::RingRegistry::ForEach([&](core::ThreadRing* ring) {
      for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
        records.insert(records.end(), span.items, span.items + span.count);
        ring->ring.Consume(span.count);
      }
    });
    return records;
  }
  void Arm(bool graph_nodes = false, uint32_t activities = kAll) {
    ArmRequest request;
    request.activities = activities;
    request.graph_nodes = graph_nodes;
    Backend().Arm(request);
    ASSERT_TRUE(Backend().IsArmed()) << Backend().state().reason;
    Record(true);
  }
  // As the phase controller: launches off, device kinds stay until all is in, then the rest.
  void CloseWindow(size_t kernels) {
    Record(false);
    EXPECT_EQ(Backend().CallsInFlight(), 0U);
    Backend().DisableCallbacks();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (sink_.kernels.size() < kernels && std::chrono::steady_clock::now() < deadline) {
      Backend().FlushPlain();
      if (Backend().Decode(&sink_) == 0) std::this_thread::yield();
    }
    Backend().Disarm();
    Backend().Decode(&sink_);
  }
  static size_t CountOf(const std::vector<core::Record>& calls, CallClass call_class) {
    size_t count = 0;
    for (const core::Record& call : calls) count += call.call_class == call_class ? 1 : 0;
    return count;
  }

  RecordingSink sink_;
};

}  // namespace stepagent::cupti
