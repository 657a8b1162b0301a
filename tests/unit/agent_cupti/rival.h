#pragma once
// Another CUPTI client in the test's process.
//
// Thread rule: the test's thread. Failure rule: CUPTI's result codes are returned.
#include <dlfcn.h>

#include "agent/cupti/api_table.h"
#include "agent/cupti/cupti_backend.h"

namespace stepagent::cupti {

// A rival in the same process, through the copy of CUPTI that the backend uses.
class Rival {
 public:
  Rival() {
    void* handle = dlopen(Backend().state().cupti_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) (void)api_.Fill(handle);
    finalize_ = handle == nullptr
                    ? nullptr
                    : reinterpret_cast<CUptiResult (*)()>(dlsym(handle, "cuptiFinalize"));
  }
  int Subscribe() {
    if (api_.Subscribe_v2 != nullptr) {
      SubscriberParams params;
      params.name = "rival";
      return api_.Subscribe_v2(&handle_, OnCall, nullptr, &params);
    }
    return api_.Subscribe(&handle_, OnCall, nullptr);
  }
  void Unsubscribe() { (void)api_.Unsubscribe(handle_); }
  // Kernel records on or off, into whoever's buffers are registered.
  int SwitchKernels(bool on) {
    return on ? api_.ActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
              : api_.ActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  }
  // Fails where the subscription is no more.
  int EnableSomething() { return api_.EnableCallback(1, handle_, CUPTI_CB_DOMAIN_RESOURCE, 1); }
  void Finalize() { (void)finalize_(); }
  [[nodiscard]] bool has_names() const { return api_.Subscribe_v2 != nullptr; }

 private:
  static void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
  ApiTable api_;
  CUpti_SubscriberHandle handle_ = nullptr;
  CUptiResult (*finalize_)() = nullptr;
};

}  // namespace stepagent::cupti
