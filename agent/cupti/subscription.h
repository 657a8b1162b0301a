#pragma once
// Subscription: our place as CUPTI's one subscriber, and the kinds switched on under it.
//
// Purpose: subscribe (with our name where the library takes one), switch kinds and callbacks on and
// off one by one, keep each one's error, flush, let go. A handle is held until CUPTI has taken it
// back or says that it knows it no more: a lost one would be the "other client" of all later
// cycles. Thread rule: as CuptiBackend's methods. Failure rule: every call's result is returned or
// kept; nothing is retried here. Never cuptiFinalize, never the timestamp callback.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/cupti/api_table.h"
#include "agent/cupti/kinds.h"

namespace stepagent::cupti {

class Subscription {
 public:
  explicit Subscription(const ApiTable* api) : api_(api) {}

  // CUPTI's result code. On 39 *holder is who has the slot, where the library tells.
  [[nodiscard]] int Subscribe(CUpti_CallbackFunc callback, std::string* holder);
  [[nodiscard]] bool is_subscribed() const { return handle_ != nullptr; }
  // An error other than "no such subscriber" keeps the handle, for a later try.
  void Unsubscribe();
  // Switches a callback on that stays on until the subscription ends. IsAlive asks for it: it goes
  // off when somebody finalises CUPTI, also where a rival's subscription then has our handle's
  // value. Without a witness nothing is known and IsAlive says true.
  void SetWitness(uint32_t domain, uint32_t cbid);
  [[nodiscard]] bool has_witness() const { return has_witness_; }
  [[nodiscard]] bool IsAlive() const;
  // What the last Unsubscribe said, where it kept the handle; else 0.
  [[nodiscard]] int unsubscribe_error() const { return unsubscribe_error_; }
  // Forgets the handle without a call: somebody finalised CUPTI and it means nothing any more.
  void Abandon() {
    handle_ = nullptr;
    unsubscribe_error_ = CUPTI_SUCCESS;
    has_witness_ = false;
    enabled_.clear();
  }
  // The kinds went off with CUPTI: what is on now is somebody else's.
  void ForgetKinds() { enabled_.clear(); }

  [[nodiscard]] int RegisterBuffers(CUpti_BuffersCallbackRequestFunc request,
                                    CUpti_BuffersCallbackCompleteFunc complete);
  [[nodiscard]] int EnableKind(uint32_t kind);
  // Enables and has the records of what exists already written, where the library can.
  [[nodiscard]] int EnableKindAndDump(uint32_t kind);
  void DisableKinds();
  [[nodiscard]] int EnableCallback(bool on, uint32_t domain, uint32_t cbid);
  [[nodiscard]] int Flush(bool forced);
  // Adds what was dropped since the last call; false when the count could not be read.
  [[nodiscard]] bool ReadDropped(uint64_t* total);

 private:
  void Remember(uint32_t kind);
  [[nodiscard]] int ReadWitness(bool* is_on) const;

  const ApiTable* api_;
  CUpti_SubscriberHandle handle_ = nullptr;
  int unsubscribe_error_ = CUPTI_SUCCESS;
  bool has_witness_ = false;
  uint32_t witness_domain_ = 0, witness_cbid_ = 0;
  std::vector<uint32_t> enabled_;
};

}  // namespace stepagent::cupti
