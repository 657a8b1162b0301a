// The backend on the simulated libraries beside others: rivals for CUPTI's slot, forks, a stalled
// drain.
#include "tests/unit/agent_cupti/backend_sim_fixture.h"

namespace stepagent::cupti {
namespace {

TEST_F(BackendOnSim, TheSlotIsTakenAndComesBack) {
  Arm();  // so that the library is loaded and known
  Record(false);
  Rival rival;
  EXPECT_EQ(rival.Subscribe(), 39) << "we hold the slot";
  Backend().Disarm();
  Backend().Release();
  ASSERT_EQ(rival.Subscribe(), 0) << "between our cycles the slot is free";
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  EXPECT_FALSE(Backend().IsArmed());
  EXPECT_FALSE(Backend().IsSubscribed());
  EXPECT_EQ(Backend().state().status, GpuState::Status::kUnavailable);
  EXPECT_EQ(Backend().state().reason_code, "slot_taken");
  if (rival.has_names()) {
    EXPECT_NE(Backend().state().holder.find("rival"), std::string::npos)
        << Backend().state().holder;
    EXPECT_NE(Backend().state().reason.find("rival"), std::string::npos);
  }
  rival.Unsubscribe();
  Arm();
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
}

TEST_F(BackendOnSim, ARivalFinalisesBetweenCycles) {
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  Record(false);
  Backend().Disarm();
  Backend().Decode(&sink_);
  ASSERT_EQ(sink_.kernels.size(), 1U);
  ASSERT_TRUE(Backend().IsSubscribed());
  Rival().Finalize();
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(2);
  ASSERT_EQ(sink_.kernels.size(), 2U);
  EXPECT_EQ(core::NameTable::Text(sink_.kernels[1].name), "_Z4gemmPfS_");
}

TEST_F(BackendOnSim, ARivalFinalisesWhileWeCollect) {
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  Rival().Finalize();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);  // seen by nobody
  Cuda().CtxSynchronize();
  CloseWindow(0);
  EXPECT_TRUE(Backend().IsLost());
  EXPECT_EQ(Backend().state().status, GpuState::Status::kPartial);
  EXPECT_EQ(Backend().state().reason_code, "cupti_finalized");
  for (const KindState& kind : Backend().kinds()) {
    EXPECT_FALSE(kind.enabled) << kind.activity;
    EXPECT_FALSE(kind.error.empty()) << kind.activity;
  }
  // What CUPTI gave back at its end counts; its names are gone with it.
  ASSERT_EQ(sink_.kernels.size(), 1U);
  EXPECT_NE(sink_.kernels[0].flags & core::kDeviceNullName, 0);
  sink_ = RecordingSink();
  Arm();
  EXPECT_FALSE(Backend().IsLost());
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected) << Backend().state().reason;
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(1);
  ASSERT_EQ(sink_.kernels.size(), 1U);
  EXPECT_EQ(core::NameTable::Text(sink_.kernels[0].name), "_Z4gemmPfS_");
}

// As after a call that was under way when the kinds went off: what it asked for must not come back
// to the next client's callback.
TEST_F(BackendOnSim, NoBufferIsLeftBehindWithTheSlot) {
  Arm();
  Record(false);
  Backend().Disarm();
  Backend().Decode(&sink_);
  Rival rival;
  ASSERT_EQ(rival.SwitchKernels(true), 0);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (Backend().counters().buffers_outstanding == 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  ASSERT_EQ(rival.SwitchKernels(false), 0);
  ASSERT_EQ(Backend().counters().buffers_outstanding, 1U);
  Backend().Release();
  EXPECT_EQ(Backend().counters().buffers_outstanding, 0U);
}

// The rival's subscription may have our old handle's value: it is not taken for ours, and kept.
TEST_F(BackendOnSim, ARivalFinalisesAndTakesOurPlace) {
  for (const bool is_armed : {true, false}) {
    Arm();
    Record(false);
    if (!is_armed) {
      Backend().Disarm();
      Backend().Decode(&sink_);
    }
    Rival rival;
    rival.Finalize();
    ASSERT_EQ(rival.Subscribe(), 0);
    Backend().Disarm();
    Backend().Decode(&sink_);
    EXPECT_EQ(Backend().IsLost(), is_armed);
    ArmRequest request;
    request.activities = kAll;
    Backend().Arm(request);
    EXPECT_EQ(Backend().state().reason_code, "slot_taken") << Backend().state().reason;
    EXPECT_EQ(rival.EnableSomething(), 0);
    Backend().Release();
    EXPECT_EQ(rival.EnableSomething(), 0) << "the rival was thrown out";
    rival.Unsubscribe();
  }
  Arm();
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
}

TEST_F(BackendOnSim, AForkedChildIsToldSo) {
  Arm();
  const pid_t child = fork();
  if (child == 0) {
    Backend().ForgetAll();
    ArmRequest request;
    request.activities = kAll;
    Backend().Arm(request);
    const bool is_right = !Backend().IsArmed() && Backend().state().reason_code == "forked_child";
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Backend().IsArmed());
}

TEST_F(BackendOnSim, AStalledDrainCountsWhatItLoses) {
  Arm();
  // More than the cap holds on any personality: 128 MiB are 0.6 M kernel records.
  constexpr uint64_t kLaunches = 20000;
  for (uint64_t i = 0; i < kLaunches; ++i) ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  Record(false);
  Backend().Disarm();
  Backend().Decode(&sink_);
  const BackendCounters counters = Backend().counters();
  EXPECT_EQ(sink_.kernels.size() + counters.pool_dropped[kActivityKernel] + counters.cupti_dropped,
            kLaunches);
  EXPECT_FALSE(counters.dropped_unknown);
}

}  // namespace
}  // namespace stepagent::cupti
