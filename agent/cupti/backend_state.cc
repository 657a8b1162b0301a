// BackendImpl: what it tells, and what it decodes. Arming: backend.cc.
#include <algorithm>

#include "agent/cupti/api_call_handler.h"
#include "agent/cupti/backend.h"
#include "agent/cupti/callback_entry.h"

namespace stepagent::cupti {
namespace {

constexpr uint32_t kApi120 = 18;      // 11.8, and 12.0 with and without update 1
constexpr uint32_t kApi130 = 130000;  // deadlocks and crashes that 13.0 update 1 fixed
constexpr uint32_t kApi133 = 130300;  // several subscribers, with driver r610 and later
constexpr uint32_t kDriver133 = 13030;
constexpr int kDeviceNameBytes = 256;

struct AttributeField {
  int attribute;  // CUdevice_attribute
  uint32_t core::DeviceActivity::*field;
};
constexpr AttributeField kAttributes[] = {
    {1, &core::DeviceActivity::max_threads_per_block},
    {8, &core::DeviceActivity::shared_per_block},
    {10, &core::DeviceActivity::warp_size},
    {12, &core::DeviceActivity::registers_per_block},
    {13, &core::DeviceActivity::clock_khz},
    {16, &core::DeviceActivity::multiprocessors},
    {39, &core::DeviceActivity::max_threads_per_multiprocessor},
    {75, &core::DeviceActivity::compute_major},
    {76, &core::DeviceActivity::compute_minor},
    {81, &core::DeviceActivity::shared_per_multiprocessor},
    {82, &core::DeviceActivity::registers_per_multiprocessor},
    {97, &core::DeviceActivity::shared_per_block_optin},
};
constexpr int kMemoryClockKhz = 36;
constexpr int kMemoryBusBits = 37;

}  // namespace

void BackendImpl::Refuse(const Reason& reason) {
  for (KindState& kind : kinds_) {
    kind.enabled = false;
    // A kind's own error says more; an earlier reason of the whole is replaced.
    if (kind.error.empty() || kind.error == state_.reason_code) kind.error = reason.code;
  }
  state_.status = GpuState::Status::kUnavailable;
  state_.reason_code = reason.code;
  state_.reason = reason.sentence;
}

int BackendImpl::InitResult() {
  // A failed cuInit is not cached by the driver and takes 15 to 65 ms; it does not get better.
  if (failed_init_ == kCudaOk) failed_init_ = driver_.Init();
  return failed_init_;
}

Reason BackendImpl::WhyNotInitialized(const std::string& call, int result) {
  if (request_.inside_injection) {
    was_not_initialized_ = true;
    return {"error",
            call + " failed with " + api_.ResultText(result) + " while CUDA was being initialised"};
  }
  const Reason reason = ReasonOfDriver(InitResult());
  if (reason.is_set()) return reason;
  // A library that has taken our subscription does work with the driver.
  if (subscription_.is_subscribed())
    return ReasonOfCupti(call, result, api_.ResultText(result), "");
  return CuptiTooNewReason(library_.path, state_.cupti_version, driver_version_);
}

Reason BackendImpl::WhyRefused(const std::string& call, int result, const std::string& holder) {
  if (MeansNotInitialized(result)) return WhyNotInitialized(call, result);
  if (result == kCuptiSlotTaken && subscription_.unsubscribe_error() != kCuptiOk) {
    return {"error",
            "CUPTI still counts an earlier subscription of ours: cuptiUnsubscribe failed with " +
                api_.ResultText(subscription_.unsubscribe_error())};
  }
  return ReasonOfCupti(call, result, api_.ResultText(result), holder);
}

void BackendImpl::Diagnose() {
  if (!reason_is_pending_) return;
  reason_is_pending_ = false;
  // Whatever CUPTI or its absence said, a driver without a device says more.
  const Reason reason = ReasonOfDriver(InitResult());
  if (reason.is_set()) {
    Refuse(reason);
  } else if (was_not_initialized_) {
    Refuse(CuptiTooNewReason(state_.cupti_path, state_.cupti_version, driver_version_));
  }
}

KindState* BackendImpl::Kind(uint32_t activity) {
  for (KindState& kind : kinds_) {
    if (kind.activity == activity) return &kind;
  }
  return nullptr;
}

bool BackendImpl::Summarize() {
  uint32_t enabled = 0;
  std::string errors;
  for (const KindState& kind : kinds_) {
    if (kind.enabled) ++enabled;
    if (!kind.error.empty()) errors += (errors.empty() ? "" : "; ") + kind.error;
  }
  const bool wants_device = std::any_of(kinds_.begin(), kinds_.end(), [](const KindState& kind) {
    return kind.activity != kActivityLaunch;
  });
  NoteQuirks();
  if (enabled == 0 || (wants_device && device_kinds_on_ == 0)) {
    Refuse(WhyRefused(first_kind_error_call_, first_kind_error_, ""));
    return false;
  }
  state_.status = errors.empty() ? GpuState::Status::kCollected : GpuState::Status::kPartial;
  if (errors.empty()) return true;
  state_.reason_code = "kinds_missing";
  state_.reason = "not everything asked for can be collected: " + errors;
  return true;
}

void BackendImpl::NoteQuirks() {
  if (state_.cupti_version <= kApi120 && state_.graph_level == "node") {
    state_.notes.push_back({"early_graphs",
                            "before 12.0 update 1 CUPTI does not record the kernels of CUDA graphs "
                            "that were instantiated before collection began; --graph graph records "
                            "their launches"});
  }
  if (state_.cupti_version == kApi130) {
    state_.notes.push_back({"cupti_13_0",
                            "CUPTI 13.0 before update 1 can deadlock when kernel records "
                            "are switched off: update it"});
  }
  if (state_.cupti_version >= kApi133 && driver_version_ >= kDriver133) {
    state_.notes.push_back({"several_subscribers",
                            "this CUPTI and driver can serve several clients at "
                            "once; stepagent takes the one-client way"});
  }
  if (state_.newer_cupti) {
    state_.notes.push_back({"newer_cupti",
                            "records are longer than any layout known: the known fields "
                            "were read, later ones are left out"});
  }
}

bool BackendImpl::NoteFatal() {
  const int result = FatalResult();
  if (result == kCuptiOk || is_lost_ || !IsArmed()) return is_lost_;
  ClearFatalResult();
  Lose({"cupti_stopped", "CUPTI met a fatal error and stopped itself: " + api_.ResultText(result)});
  return true;
}

bool BackendImpl::NoteLoss() {
  if (NoteFatal() || !IsArmed()) return is_lost_;
  if (!subscription_.IsAlive()) Lose(FinalizedReason());
  return is_lost_;
}

// The handle is kept for the next arming to give back: it may be good still.
void BackendImpl::Lose(const Reason& reason) {
  is_lost_ = true;
  subscription_.ForgetKinds();
  decoder_.LoseNames();
  state_.status = GpuState::Status::kPartial;
  state_.reason_code = reason.code;
  state_.reason = reason.sentence;
  for (KindState& kind : kinds_) {
    kind.enabled = false;
    kind.error += (kind.error.empty() ? "" : "; ") + reason.code;
  }
}

uint64_t BackendImpl::DeviceClockNs() const {
  uint64_t now = 0;
  if (library_.handle == nullptr || api_.GetTimestamp == nullptr) return 0;
  return api_.GetTimestamp(&now) == CUPTI_SUCCESS ? now : 0;
}

std::vector<uint32_t> BackendImpl::ActivePrimaries() {
  if (!cuda_noted_.load(std::memory_order_relaxed) || !driver_.Find()) return {};
  return driver_.ActivePrimaries();
}

uint64_t BackendImpl::Decode(core::ActivitySink* sink) {
  BufferPool* pool = Pool();
  if (pool == nullptr) return 0;
  if (IsArmed()) {
    (void)NoteFatal();
    if (must_describe_devices_) DescribeDevices(sink);
  }
  if (!pool->HasCompleted()) return 0;
  (void)NoteLoss();  // names die with CUPTI
  decoder_.SetNow(DeviceClockNs());
  uint64_t decoded = 0;
  pool->TakeCompleted([&](const BufferPool::Completed& buffer) {
    decoded += decoder_.DecodeBuffer(buffer.data, buffer.valid_bytes, sink);
  });
  return decoded;
}

void BackendImpl::DescribeDevices(core::ActivitySink* sink) {
  int count = 0;
  if (driver_.DeviceCount(&count) != kCudaOk) return;  // not initialised yet: next time
  must_describe_devices_ = false;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    core::DeviceActivity device{};
    char name[kDeviceNameBytes] = {};
    device.ordinal = static_cast<uint32_t>(ordinal);
    if (!driver_.Describe(device.ordinal, name, sizeof(name) - 1, device.uuid,
                          &device.memory_bytes)) {
      continue;
    }
    device.name = name;
    for (const AttributeField& entry : kAttributes) {
      device.*entry.field = driver_.Attribute(entry.attribute, device.ordinal);
    }
    // Two transfers a clock, as CUPTI's own record has it.
    device.memory_bandwidth_kbps = uint64_t{2} *
                                   driver_.Attribute(kMemoryClockKhz, device.ordinal) *
                                   (driver_.Attribute(kMemoryBusBits, device.ordinal) / 8);
    sink->OnDevice(device);
  }
}

void BackendImpl::Flush(bool forced) {
  flush_result_ = subscription_.Flush(forced);
  ReadDropped();
}

// The last flush failed: nobody knows what CUPTI still holds. A later one may give it all.
bool BackendImpl::HoldsBack() const { return flush_result_ != kCuptiOk && !is_lost_; }

GpuState BackendImpl::state() const {
  GpuState state = state_;
  if (!HoldsBack() || state.status == GpuState::Status::kUnavailable) return state;
  state.status = GpuState::Status::kPartial;
  state.reason_code = "flush_failed";
  state.reason = "CUPTI does not hand over what it recorded: cuptiActivityFlushAll failed with " +
                 api_.ResultText(flush_result_) +
                 (state_.reason.empty() ? "" : "; " + state_.reason);
  return state;
}

std::vector<KindState> BackendImpl::kinds() const {
  std::vector<KindState> kinds = kinds_;
  if (!HoldsBack()) return kinds;
  for (KindState& kind : kinds) {
    // Calls are counted by the callbacks, which need no flush.
    if (kind.activity == kActivityLaunch || kind.activity == kActivitySync) continue;
    kind.enabled = false;
    kind.error += (kind.error.empty() ? "" : "; ") + std::string("cuptiActivityFlushAll: ") +
                  api_.ResultText(flush_result_);
  }
  return kinds;
}

void BackendImpl::ReadDropped() {
  if (!subscription_.ReadDropped(&cupti_dropped_)) dropped_unknown_ = true;
}

BackendCounters BackendImpl::counters() {
  BackendCounters counters;
  const ApiCallHandler::Totals calls = ApiCallHandler::totals();
  counters.callbacks = calls.time;
  counters.calls_without_cell = calls.no_cell;
  const DecodeCounts& decoded = decoder_.counts();
  counters.records_decoded = decoded.decoded;
  counters.records_invalid = decoded.invalid;
  counters.records_other_kinds = decoded.other_kinds;
  counters.records_no_timing = decoded.no_timing;
  counters.records_odd_length = decoded.odd_lengths;
  counters.cupti_dropped = cupti_dropped_;
  counters.dropped_unknown = dropped_unknown_;
  if (Pool() == nullptr) return counters;
  const PoolCounts pool = Pool()->counts();
  counters.foreign_buffers = pool.foreign;
  counters.refused_buffers = pool.refused;
  counters.buffers_outstanding = pool.outstanding;
  counters.buffer_bytes = pool.bytes;
  counters.pool_uncounted = pool.uncounted;
  std::copy(std::begin(pool.dropped), std::end(pool.dropped), std::begin(counters.pool_dropped));
  return counters;
}

std::vector<KindCount> BackendImpl::other_kinds() const {
  static_assert(kBeyondKinds == kKindLimit);
  std::vector<KindCount> found;
  const DecodeCounts& counts = decoder_.counts();
  for (uint32_t kind = 0; kind <= kKindLimit; ++kind) {
    if (counts.other_by_kind[kind] != 0) found.push_back({kind, counts.other_by_kind[kind]});
  }
  return found;
}

void BackendImpl::ForgetAll() {
  ApiCallHandler::ForgetAll();
  // The parent's subscription, pool and armed state mean nothing here, and nothing is freed:
  // CUPTI's copy of them is in whatever state the fork found it. The library itself stays chosen.
  subscription_.Abandon();
  pool_.store(nullptr, std::memory_order_relaxed);
  is_armed_.store(false, std::memory_order_relaxed);
  has_armed_once_ = false;
  are_calls_on_ = false;
  is_lost_ = false;
  flush_result_ = kCuptiOk;
  cuda_noted_.store(false, std::memory_order_relaxed);
  failed_init_ = kCudaOk;
  must_note_cuda_ = true;
  reason_is_pending_ = false;
  cupti_dropped_ = 0;
  dropped_unknown_ = false;
  driver_ = Driver();
  catalog_ = CallbackCatalog();
  decoder_.ForgetNames();
  decoder_.ForgetCounts();
  request_ = ArmRequest();
  state_ = GpuState();
  kinds_.clear();
}

}  // namespace stepagent::cupti
