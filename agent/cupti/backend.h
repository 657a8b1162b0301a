#pragma once
// BackendImpl: CuptiBackend made of its parts.
//
// Purpose: the order of things: driver, library, pool, subscription, kinds, callbacks; and back.
// Thread rule and failure rule: cupti_backend.h.
#include <atomic>
#include <string>
#include <vector>

#include "agent/cupti/api_table.h"
#include "agent/cupti/availability.h"
#include "agent/cupti/buffer_pool.h"
#include "agent/cupti/callback_catalog.h"
#include "agent/cupti/cupti_backend.h"
#include "agent/cupti/decoder.h"
#include "agent/cupti/driver.h"
#include "agent/cupti/layouts.h"
#include "agent/cupti/loader.h"
#include "agent/cupti/subscription.h"

namespace stepagent::cupti {

class BackendImpl final : public CuptiBackend {
 public:
  BackendImpl();

  void NoteCuda() override;
  [[nodiscard]] bool CudaIsMapped() const override;
  [[nodiscard]] bool MustNoteCuda() const override {
    return must_note_cuda_ && !cuda_noted_.load(std::memory_order_relaxed);
  }
  void Arm(const ArmRequest& request) override;
  [[nodiscard]] bool IsArmed() const override { return is_armed_.load(std::memory_order_acquire); }
  [[nodiscard]] bool CameTooEarly() const override { return was_not_initialized_; }
  void DisableCallbacks() override;
  [[nodiscard]] uint32_t CallsInFlight() const override;
  void EnableCallbacks() override;
  void FlushPlain() override;
  [[nodiscard]] bool IsLost() const override { return is_lost_; }
  bool NoteLoss() override;
  void FlushForced() override;
  void Disarm() override;
  void Release() override;
  [[nodiscard]] bool IsSubscribed() const override { return subscription_.is_subscribed(); }
  uint64_t Decode(core::ActivitySink* sink) override;
  void DumpExisting() override;
  void Diagnose() override;
  [[nodiscard]] uint64_t DeviceClockNs() const override;
  [[nodiscard]] std::vector<uint32_t> ActivePrimaries() override;
  void SetStackSource(uint32_t (*source)() noexcept) override { stack_source_ = source; }
  [[nodiscard]] GpuState state() const override;
  [[nodiscard]] std::vector<KindState> kinds() const override;
  [[nodiscard]] BackendCounters counters() override;
  [[nodiscard]] std::vector<KindCount> other_kinds() const override;
  void ForgetAll() override;

 private:
  // Arming, one step each; false: refused, state_ says why.
  using Step = bool (BackendImpl::*)();
  [[nodiscard]] bool RunSteps(const Step* begin, const Step* end);
  void ArmSteps();
  [[nodiscard]] bool Renew();
  [[nodiscard]] bool CheckRequest();
  [[nodiscard]] bool CheckDriver();
  [[nodiscard]] bool LoadAndSubscribe();
  void PassOver(const Reason& first);
  [[nodiscard]] bool LoadLibrary();
  [[nodiscard]] int Subscribe(std::string* holder);
  [[nodiscard]] bool RegisterBuffers();
  [[nodiscard]] bool EnableKinds();
  [[nodiscard]] bool EnableCalls();
  [[nodiscard]] bool Summarize();

  void Refuse(const Reason& reason);
  [[nodiscard]] int InitResult();
  [[nodiscard]] Reason WhyNotInitialized(const std::string& call, int result);
  [[nodiscard]] Reason WhyRefused(const std::string& call, int result, const std::string& holder);
  void EnableKind(const KindSpec& spec);
  void EnableGraphLevel();
  void NoteQuirks();
  // As NoteLoss, but asks nothing of CUPTI.
  bool NoteFatal();
  void Lose(const Reason& reason);
  [[nodiscard]] KindState* Kind(uint32_t activity);
  [[nodiscard]] int SwitchCallbacks(bool on);
  [[nodiscard]] bool Wants(uint32_t activity) const {
    return (request_.activities & ActivityMask(activity)) != 0;
  }
  [[nodiscard]] bool WantsFunction(core::CallClass call_class) const;
  [[nodiscard]] BufferPool* Pool() const { return pool_.load(std::memory_order_acquire); }
  void Flush(bool forced);
  [[nodiscard]] bool HoldsBack() const;
  void ReadDropped();
  void DescribeDevices(core::ActivitySink* sink);

  Driver driver_;
  LoadedLibrary library_;
  std::vector<std::string> rejected_;
  ApiTable api_;
  Layouts layouts_;
  CallbackCatalog catalog_;
  // Leaked: CUPTI may hold buffers for ever. Atomic, like is_armed_: the thread `stepagent` may
  // look (Decode, counters) while the thread inside InitializeInjection arms for the first time.
  std::atomic<BufferPool*> pool_{nullptr};
  Subscription subscription_;
  Decoder decoder_;

  ArmRequest request_;
  GpuState state_;
  std::vector<KindState> kinds_;
  uint32_t driver_version_ = 0;
  int first_kind_error_ = 0;
  std::string first_kind_error_call_;
  uint32_t device_kinds_on_ = 0;
  std::atomic<bool> cuda_noted_{false};  // set by the thread inside InitializeInjection
  int failed_init_ = 0;                  // cuInit's last bad result: it is costly and not cached
  bool must_note_cuda_ = false;          // forked: the parent's CUDA is not ours
  std::atomic<bool> is_armed_{false};
  bool has_armed_once_ = false;
  bool are_calls_on_ = false;  // callbacks of all functions that are wanted
  int flush_result_ = 0;       // of this collection's last flush
  bool is_lost_ = false;       // this collection ended with CUPTI: nothing is asked of it any more
  bool reason_is_pending_ = false;    // told inside InitializeInjection, before cuInit had a result
  bool was_not_initialized_ = false;  // and it was CUPTI that found no usable driver
  bool must_describe_devices_ = false;
  uint64_t cupti_dropped_ = 0;
  bool dropped_unknown_ = false;
  uint32_t (*stack_source_)() noexcept = nullptr;
};

}  // namespace stepagent::cupti
