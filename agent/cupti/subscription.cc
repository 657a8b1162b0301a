#include "agent/cupti/subscription.h"

#include <algorithm>

namespace stepagent::cupti {
namespace {

constexpr const char* kName = "stepagent";
constexpr size_t kHolderBytes = 128;      // the library asks for at least 64
constexpr uint32_t kSystemThreadIds = 1;  // CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM

}  // namespace

int Subscription::Subscribe(CUpti_CallbackFunc callback, std::string* holder) {
  CUptiResult result;
  CUpti_SubscriberHandle handle = nullptr;
  if (api_->Subscribe_v2 != nullptr) {
    char text[kHolderBytes] = {};
    SubscriberParams params;
    params.name = kName;
    params.holder = text;
    params.holder_bytes = sizeof(text);
    result = api_->Subscribe_v2(&handle, callback, nullptr, &params);
    text[sizeof(text) - 1] = '\0';
    *holder = text;
  } else {
    result = api_->Subscribe(&handle, callback, nullptr);
  }
  if (result != CUPTI_SUCCESS) return result;
  handle_ = handle;
  unsubscribe_error_ = CUPTI_SUCCESS;
  return result;
}

void Subscription::Unsubscribe() {
  if (handle_ == nullptr) return;
  bool is_ours = true;
  if (has_witness_ && ReadWitness(&is_ours) == CUPTI_SUCCESS && !is_ours) return Abandon();
  const int result = api_->Unsubscribe(handle_);
  // No such subscriber: a rival has finalised CUPTI, and the handle means nothing any more.
  if (result == CUPTI_SUCCESS || result == CUPTI_ERROR_INVALID_PARAMETER) {
    Abandon();
  } else {
    unsubscribe_error_ = result;
  }
}

int Subscription::ReadWitness(bool* is_on) const {
  uint32_t state = 0;
  const int result =
      api_->GetCallbackState(&state, handle_, static_cast<CUpti_CallbackDomain>(witness_domain_),
                             static_cast<CUpti_CallbackId>(witness_cbid_));
  *is_on = state != 0;
  return result;
}

void Subscription::SetWitness(uint32_t domain, uint32_t cbid) {
  has_witness_ = false;
  if (EnableCallback(true, domain, cbid) != CUPTI_SUCCESS) return;
  if (api_->GetCallbackState == nullptr) return;
  witness_domain_ = domain;
  witness_cbid_ = cbid;
  has_witness_ = ReadWitness(&has_witness_) == CUPTI_SUCCESS && has_witness_;
}

bool Subscription::IsAlive() const {
  if (!has_witness_) return true;
  bool is_on = false;
  return ReadWitness(&is_on) == CUPTI_SUCCESS && is_on;
}

int Subscription::RegisterBuffers(CUpti_BuffersCallbackRequestFunc request,
                                  CUpti_BuffersCallbackCompleteFunc complete) {
  // Thread ids as the kernel has them, in every record that carries one; before any enable.
  if (api_->SetThreadIdType != nullptr) (void)api_->SetThreadIdType(kSystemThreadIds);
  return api_->ActivityRegisterCallbacks(request, complete);
}

void Subscription::Remember(uint32_t kind) {
  if (std::find(enabled_.begin(), enabled_.end(), kind) == enabled_.end()) enabled_.push_back(kind);
}

int Subscription::EnableKind(uint32_t kind) {
  const int result = api_->ActivityEnable(static_cast<CUpti_ActivityKind>(kind));
  if (result == CUPTI_SUCCESS) Remember(kind);
  return result;
}

int Subscription::EnableKindAndDump(uint32_t kind) {
  if (api_->ActivityEnableAndDump == nullptr) return EnableKind(kind);
  const int result = api_->ActivityEnableAndDump(static_cast<CUpti_ActivityKind>(kind));
  if (result != CUPTI_SUCCESS) return EnableKind(kind);
  Remember(kind);
  return result;
}

void Subscription::DisableKinds() {
  // In reverse: what came on last goes off first.
  while (!enabled_.empty()) {
    (void)api_->ActivityDisable(static_cast<CUpti_ActivityKind>(enabled_.back()));
    enabled_.pop_back();
  }
}

int Subscription::EnableCallback(bool on, uint32_t domain, uint32_t cbid) {
  if (handle_ == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return api_->EnableCallback(on ? 1 : 0, handle_, static_cast<CUpti_CallbackDomain>(domain), cbid);
}

int Subscription::Flush(bool forced) {
  return api_->ActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
                                       : CUPTI_ACTIVITY_FLAG_NONE);
}

bool Subscription::ReadDropped(uint64_t* total) {
  if (api_->ActivityGetNumDroppedRecords == nullptr) return false;
  size_t dropped = 0;
  if (api_->ActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) return false;
  *total += dropped;
  return true;
}

}  // namespace stepagent::cupti
