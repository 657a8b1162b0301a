// The life of a collection: arm, callbacks on and off, flush, disarm, release. state() and what it
// is made of: backend_state.cc.
#include "agent/cupti/backend.h"

#include <optional>
#include <utility>

#include "agent/cupti/api_call_handler.h"
#include "agent/cupti/callback_entry.h"
#include "agent/guard/loader_gate.h"

namespace stepagent::cupti {
namespace {

// A fork holds the gate for as long as the kernel copies the process; longer means something is
// wrong.
constexpr uint64_t kGateWaitNs = 5'000'000'000;
// A second file where the first is too new for the driver, and one more.
constexpr int kLibraryTries = 3;
constexpr const char* kPassedOver = "; passed over: ";  // the doctor looks for it
// CUDA 11.7, driver 515: the first that can record a graph launch as one piece.
constexpr uint32_t kGraphTraceDriver = 11070;

}  // namespace

BackendImpl::BackendImpl() : subscription_(&api_) {}

void BackendImpl::NoteCuda() { cuda_noted_.store(true, std::memory_order_relaxed); }

bool BackendImpl::CudaIsMapped() const {
  return cuda_noted_.load(std::memory_order_relaxed) || Driver::IsMapped();
}

void BackendImpl::Arm(const ArmRequest& request) {
  if (IsArmed() && !NoteLoss() && request.activities == request_.activities &&
      request.graph_nodes == request_.graph_nodes) {
    request_.native_stacks = request.native_stacks;
    ApiCallHandler::SetStackSource(request_.native_stacks ? stack_source_ : nullptr);
    request_.calls_are_on = request.calls_are_on;
    if (Renew()) return;
  }
  if (IsArmed()) Disarm();  // another level of detail: the records so far are in the pool
  request_ = request;
  try {
    ArmSteps();
  } catch (...) {  // bad_alloc is all that can be thrown here
    Refuse({"error", "out of memory while arming CUPTI"});
  }
  if (IsArmed()) return;
  reason_is_pending_ = request.inside_injection;
  Release();
}

bool BackendImpl::RunSteps(const Step* begin, const Step* end) {
  for (const Step* step = begin; step != end; ++step) {
    if (!(this->**step)()) return false;
  }
  return true;
}

void BackendImpl::ArmSteps() {
  static constexpr Step kLoading[] = {&BackendImpl::CheckRequest, &BackendImpl::CheckDriver,
                                      &BackendImpl::LoadAndSubscribe};
  static constexpr Step kEnabling[] = {&BackendImpl::RegisterBuffers, &BackendImpl::EnableKinds,
                                       &BackendImpl::EnableCalls, &BackendImpl::Summarize};
  state_ = GpuState();
  kinds_.clear();
  is_lost_ = false;
  flush_result_ = kCuptiOk;
  reason_is_pending_ = false;
  was_not_initialized_ = false;
  std::optional<guard::LoaderGate::Scope> gate(std::in_place, kGateWaitNs);
  if (!*gate) return Refuse({"error", "the loader gate did not open: a fork seems to hang"});
  if (!RunSteps(std::begin(kLoading), std::end(kLoading))) return;
  // Only the first enable loads code.
  if (has_armed_once_) gate.reset();
  if (!RunSteps(std::begin(kEnabling), std::end(kEnabling))) return;
  has_armed_once_ = true;
  is_armed_.store(true, std::memory_order_release);  // pairs with IsArmed: all of the above is set
}

// What failed for the cycle before is tried again; what another client switched off or took over
// since comes back. For what is on already this changes nothing. False: start anew.
bool BackendImpl::Renew() {
  if (!request_.calls_are_on) ApiCallHandler::NewEpoch();
  are_calls_on_ = SwitchCallbacks(true) == kCuptiOk;
  if (!are_calls_on_) return false;
  state_.notes.clear();
  state_.reason_code.clear();
  state_.reason.clear();
  kinds_.clear();
  if (!CheckRequest()) return false;
  if (KindState* launch = Kind(kActivityLaunch)) launch->enabled = !catalog_.functions().empty();
  (void)subscription_.RegisterBuffers(OnBufferRequested, OnBufferCompleted);
  return EnableKinds() && Summarize();
}

bool BackendImpl::CheckRequest() {
  constexpr uint32_t kOurs = ActivityMask(kActivityKernel) | ActivityMask(kActivityMemcpy) |
                             ActivityMask(kActivityMemset) | ActivityMask(kActivityLaunch) |
                             ActivityMask(kActivitySync) | ActivityMask(kActivityMemory) |
                             ActivityMask(kActivityOverhead);
  for (uint32_t activity = 1; activity < kActivityCount; ++activity) {
    if ((kOurs & request_.activities & ActivityMask(activity)) == 0) continue;
    KindState kind;
    kind.activity = activity;
    kind.requested = true;
    kinds_.push_back(kind);
  }
  if (kinds_.empty()) Refuse(NotAskedReason());
  return !kinds_.empty();
}

bool BackendImpl::CheckDriver() {
  if (!driver_.Find()) return Refuse(NoDriverReason()), false;
  const bool is_noted = cuda_noted_.load(std::memory_order_relaxed);
  if (MustNoteCuda()) return Refuse(ForkedChildReason()), false;
  int result = kCudaOk;
  driver_version_ = driver_.Version(&result);
  state_.driver_version = driver_version_;
  if (result > kCudaOk) return Refuse(ReasonOfDriver(result)), false;
  int count = 0;
  result = driver_.DeviceCount(&count);
  if (result == kCudaOk && count == 0) result = kCudaNoDevice;
  if (result == kCudaNotInitialized) {
    if (!is_noted) return Refuse(NotInitializedReason()), false;
    if (request_.inside_injection) return true;  // on the way; CUPTI may be used already
    // The application's own call has been through, or is under way on another thread.
    result = InitResult();
  }
  if (result > kCudaOk) return Refuse(ReasonOfDriver(result)), false;
  return true;
}

bool BackendImpl::LoadLibrary() {
  if (library_.handle == nullptr) {
    library_ = Loader::Load(driver_version_, rejected_);
    if (library_.handle == nullptr) {
      Refuse(CuptiMissingReason(driver_version_, library_.tried));
      return false;
    }
    const std::string missing = api_.Fill(library_.handle);
    if (!missing.empty()) {
      Refuse({"cupti_missing", library_.path + " lacks " + missing + ": it is no usable CUPTI"});
      rejected_.push_back(library_.path);
      library_ = LoadedLibrary();
      return false;
    }
    layouts_.Calibrate(api_);
    catalog_.Build(api_);
    decoder_.Use(&api_, &layouts_, &driver_);
  } else if (catalog_.functions().empty()) {
    catalog_.Build(api_);  // names were forgotten with the parent
  }
  uint32_t version = 0;
  (void)api_.GetVersion(&version);
  state_.cupti_version = version;
  state_.cupti_path = library_.path;
  state_.cupti_choice = library_.choice;
  if (!library_.passed_over.empty()) state_.cupti_choice += kPassedOver + library_.passed_over;
  state_.newer_cupti = layouts_.is_newer();
  return true;
}

int BackendImpl::Subscribe(std::string* holder) {
  if (subscription_.is_subscribed()) {
    if (!catalog_.functions().empty() && subscription_.IsAlive()) {
      const CallbackCatalog::Function& any = catalog_.functions().front();
      const int result = subscription_.EnableCallback(false, any.domain, any.cbid);
      if (result == kCuptiOk) return result;
    }
    // A rival finalised CUPTI and our handle means nothing, or CUPTI refuses what we ask under it:
    // it is given back before a new one is asked for.
    subscription_.Unsubscribe();
  }
  return subscription_.Subscribe(OnCallback, holder);
}

// Another copy works: what was wrong with the first is no reason any more, but worth a word.
void BackendImpl::PassOver(const Reason& first) {
  for (KindState& kind : kinds_) kind.error.clear();
  state_.reason_code.clear();
  state_.reason.clear();
  if (library_.passed_over.empty()) state_.cupti_choice += kPassedOver + first.sentence;
  library_.passed_over = first.sentence;
}

bool BackendImpl::LoadAndSubscribe() {
  // While none has worked, every arming asks all of them: each cycle then gives the same reason,
  // and a refusal that passes is not for ever.
  if (library_.handle == nullptr) rejected_.clear();
  Reason first;
  for (int attempt = 0; attempt < kLibraryTries; ++attempt) {
    const size_t rejected = rejected_.size();
    if (!LoadLibrary()) {
      // The first reason says more than "none left".
      if (!first.is_set()) first = {state_.reason_code, state_.reason};
      if (rejected_.size() != rejected) continue;  // that file was none
      return Refuse(first), false;
    }
    std::string holder;
    const int result = Subscribe(&holder);
    if (result == kCuptiOk) {
      if (first.is_set()) PassOver(first);
      return true;
    }
    const Reason reason = WhyRefused("cuptiSubscribe", result, holder);
    if (reason.code != "cupti_too_new") {
      state_.holder = holder;
      return Refuse(reason), false;
    }
    if (!first.is_set()) first = reason;
    rejected_.push_back(library_.path);
    library_ = LoadedLibrary();
  }
  return Refuse(first), false;
}

bool BackendImpl::RegisterBuffers() {
  BufferPool* pool = Pool();
  if (pool == nullptr) pool = new BufferPool();
  if (!pool->Map()) return Refuse({"error", "no memory for CUPTI's buffers"}), false;
  pool->Begin(&layouts_);
  SetCallbackPool(pool);
  pool_.store(pool, std::memory_order_release);  // pairs with Pool()
  ClearFatalResult();
  decoder_.ForgetNames();
  // Anew at each arm: another client may have registered its own meanwhile.
  const int result = subscription_.RegisterBuffers(OnBufferRequested, OnBufferCompleted);
  if (result != kCuptiOk) Refuse(WhyRefused("cuptiActivityRegisterCallbacks", result, ""));
  return result == kCuptiOk;
}

bool BackendImpl::EnableKinds() {
  first_kind_error_ = kCuptiOk;
  device_kinds_on_ = 0;
  for (const KindSpec& spec : kKinds) {
    if (spec.role == KindRole::kInventory) {
      (void)subscription_.EnableKindAndDump(spec.kind);
    } else if (spec.role != KindRole::kGraphLevel && Wants(spec.activity)) {
      EnableKind(spec);
    }
  }
  must_describe_devices_ = api_.ActivityEnableAndDump == nullptr || request_.inside_injection;
  state_.graph_level = "node";
  const bool has_work = Wants(kActivityKernel) || Wants(kActivityMemcpy) || Wants(kActivityMemset);
  if (!request_.graph_nodes && has_work && device_kinds_on_ != 0) EnableGraphLevel();
  return true;
}

void BackendImpl::EnableKind(const KindSpec& spec) {
  KindState* kind = Kind(spec.activity);
  int result = kCuptiInvalidKind;
  std::string error = "records shorter than any known layout";
  if (layouts_.IsDecodable(spec.kind)) {
    result = subscription_.EnableKind(spec.kind);
    error = result == kCuptiOk ? "" : api_.ResultText(result);
  }
  if (result == kCuptiOk) {
    ++device_kinds_on_;
    if (spec.role == KindRole::kMain) kind->enabled = true;
    return;
  }
  if (first_kind_error_ == kCuptiOk) {
    first_kind_error_ = result;
    first_kind_error_call_ = std::string("cuptiActivityEnable(") + spec.name + ")";
  }
  if (!kind->error.empty()) kind->error += "; ";
  kind->error += std::string(spec.name) + ": " + error;
}

void BackendImpl::EnableGraphLevel() {
  std::string why;
  if (!layouts_.IsDecodable(kKindGraphTrace)) {
    why = "this CUPTI has no record for it";
  } else if (driver_version_ < kGraphTraceDriver) {
    why = "the driver is older than CUDA 11.7";
  } else {
    const int result = subscription_.EnableKind(kKindGraphTrace);
    if (result == kCuptiOk) {
      state_.graph_level = "graph";
      return;
    }
    why = api_.ResultText(result);
  }
  state_.notes.push_back({"graph_level_node",
                          "CUDA graphs are recorded kernel by kernel: one record "
                          "per graph launch is not available (" +
                              why + ")"});
}

bool BackendImpl::EnableCalls() {
  ApiCallHandler::Sweep();
  ApiCallHandler::SetStackSource(request_.native_stacks ? stack_source_ : nullptr);
  ApiCallHandler::NewEpoch();
  const int result = SwitchCallbacks(true);
  const bool has_functions = !catalog_.functions().empty();
  const std::string error =
      has_functions ? api_.ResultText(result) : "cuptiGetCallbackName names no function";
  const bool is_on = result == kCuptiOk && has_functions;
  are_calls_on_ = is_on;
  // An extra: CUPTI's own death would go unnoticed.
  subscription_.SetWitness(kDomainState, kStateFatalError);
  for (uint32_t activity : {kActivityLaunch, kActivitySync}) {
    KindState* kind = Kind(activity);
    if (kind == nullptr) continue;
    if (is_on) {
      if (activity == kActivityLaunch) kind->enabled = true;
    } else {
      kind->error += (kind->error.empty() ? "callbacks: " : "; callbacks: ") + error;
    }
  }
  if (is_on || device_kinds_on_ != 0) return true;
  Refuse(has_functions ? WhyRefused("cuptiEnableCallback", result, "")
                       : Reason{"error", "callbacks: " + error});
  return false;
}

bool BackendImpl::WantsFunction(core::CallClass call_class) const {
  switch (call_class) {
    case core::CallClass::kSync:
      return Wants(kActivitySync);
    case core::CallClass::kAlloc:
      return Wants(kActivityMemory);
    case core::CallClass::kOther:
      return false;
    default:
      return Wants(kActivityLaunch);
  }
}

int BackendImpl::SwitchCallbacks(bool on) {
  int first_error = kCuptiOk;
  for (const CallbackCatalog::Function& function : catalog_.functions()) {
    if (!WantsFunction(function.call_class)) continue;
    const int result = subscription_.EnableCallback(on, function.domain, function.cbid);
    if (first_error == kCuptiOk) first_error = result;
  }
  // An extra: without it captured launches are waited for until the grace time.
  (void)subscription_.EnableCallback(on && Wants(kActivityLaunch), kDomainResource,
                                     kGraphNodeCreated);
  return first_error;
}

void BackendImpl::DisableCallbacks() {
  if (!IsArmed()) return;
  if (!NoteLoss()) {
    const bool were_on = std::exchange(are_calls_on_, false);
    const int result = SwitchCallbacks(false);
    // Without a witness this is all there is to tell by.
    if (were_on && !subscription_.has_witness() && result == CUPTI_ERROR_INVALID_PARAMETER) {
      Lose(FinalizedReason());
    }
  }
  ApiCallHandler::NewEpoch();
}

void BackendImpl::EnableCallbacks() {
  if (!IsArmed()) return;
  ApiCallHandler::NewEpoch();
  if (!NoteLoss()) are_calls_on_ = SwitchCallbacks(true) == kCuptiOk;
}

uint32_t BackendImpl::CallsInFlight() const { return ApiCallHandler::InFlight(); }

void BackendImpl::FlushPlain() {
  if (!IsArmed() || NoteLoss()) return;
  Flush(/*forced=*/false);
}

void BackendImpl::FlushForced() {
  if (!IsArmed() || NoteLoss()) return;
  Flush(/*forced=*/true);
}

void BackendImpl::Disarm() {
  if (!IsArmed()) return;
  DisableCallbacks();
  if (!is_lost_) {
    subscription_.DisableKinds();
    Flush(/*forced=*/true);
  }
  ApiCallHandler::Sweep();
  is_armed_.store(false, std::memory_order_release);
}

void BackendImpl::Release() {
  Disarm();
  if (!subscription_.is_subscribed()) return;
  guard::LoaderGate::Scope gate(kGateWaitNs);
  subscription_.DisableKinds();
  // A call that was under way when the kinds went off may have asked for a buffer since. It would
  // be handed to the next client, which frees what it believes its own.
  if (!is_lost_ && Pool() != nullptr && Pool()->counts().outstanding != 0) Flush(/*forced=*/true);
  subscription_.Unsubscribe();
  if (Pool() != nullptr) Pool()->Trim();
}

void BackendImpl::DumpExisting() {
  if (!IsArmed() || is_lost_) return;
  for (const KindSpec& spec : kKinds) {
    if (spec.role == KindRole::kInventory) (void)subscription_.EnableKindAndDump(spec.kind);
  }
  must_describe_devices_ = api_.ActivityEnableAndDump == nullptr;
}

CuptiBackend& Backend() {
  static auto* backend = new BackendImpl();  // leaked: callbacks may outlive main
  return *backend;
}

}  // namespace stepagent::cupti
