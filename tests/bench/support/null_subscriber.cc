// A client of CUPTI that is called back for every call and does nothing: what the vendor's own part
// of a callback costs, so that ours is the difference.
//
// Loaded through CUDA_INJECTION64_PATH. A CUPTI call that fails ends the program with 1, since its
// figure would be that of no subscriber.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "null_subscriber: %s failed\n", what);
  std::_Exit(1);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  Require(library != nullptr, "opening");
  const auto subscribe =
      reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  const auto enable =
      reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(library, "cuptiEnableCallback"));
  Require(subscribe != nullptr && enable != nullptr, "finding its functions");
  CUpti_SubscriberHandle subscriber = nullptr;
  Require(subscribe(&subscriber, OnCall, nullptr) == CUPTI_SUCCESS, "subscribing");
  Require(enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                 CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) == CUPTI_SUCCESS,
          "enabling");
  return 1;
}
