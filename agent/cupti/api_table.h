#pragma once
// ApiTable: the functions of the libcupti that was loaded, obtained at run time.
//
// Purpose: nothing of CUPTI is linked; a symbol the loaded version lacks is nullptr, and callers
// say what they do then. Types newer than the oldest headers we build against are spelled out here.
// Thread rule: filled once under the loader gate, read-only afterwards.
// Failure rule: Fill names the first required symbol that is missing.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace stepagent::cupti {

// cuptiSubscribe_v2's argument (CUPTI 13.0). A flag that allows several subscribers follows
// in 13.2; the structure's size says that we do not have it.
struct SubscriberParams {
  size_t struct_bytes = sizeof(SubscriberParams);
  const char* name = nullptr;  // at most 53 bytes
  char* holder = nullptr;      // out, on error 39: who has the slot
  size_t holder_bytes = 0;     // at least 64
};
static_assert(sizeof(SubscriberParams) == 32);

using SubscribeV2Fn = CUptiResult (*)(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*,
                                      SubscriberParams*);
using EnableAndDumpFn = CUptiResult (*)(CUpti_ActivityKind);
using GetErrorMessageFn = CUptiResult (*)(CUptiResult, const char**);
using SetThreadIdTypeFn = CUptiResult (*)(uint32_t);

// name, type, required
#define STEPAGENT_CUPTI_FUNCTIONS(X)                                                     \
  X(GetVersion, decltype(&::cuptiGetVersion), true)                                      \
  X(GetResultString, decltype(&::cuptiGetResultString), false)                           \
  X(GetErrorMessage, GetErrorMessageFn, false)                                           \
  X(GetTimestamp, decltype(&::cuptiGetTimestamp), false)                                 \
  X(GetCallbackName, decltype(&::cuptiGetCallbackName), true)                            \
  X(Subscribe, decltype(&::cuptiSubscribe), true)                                        \
  X(Subscribe_v2, SubscribeV2Fn, false)                                                  \
  X(Unsubscribe, decltype(&::cuptiUnsubscribe), true)                                    \
  X(EnableCallback, decltype(&::cuptiEnableCallback), true)                              \
  X(GetCallbackState, decltype(&::cuptiGetCallbackState), false)                         \
  X(ActivityRegisterCallbacks, decltype(&::cuptiActivityRegisterCallbacks), true)        \
  X(ActivityEnable, decltype(&::cuptiActivityEnable), true)                              \
  X(ActivityEnableAndDump, EnableAndDumpFn, false)                                       \
  X(ActivityDisable, decltype(&::cuptiActivityDisable), true)                            \
  X(ActivityFlushAll, decltype(&::cuptiActivityFlushAll), true)                          \
  X(ActivityGetNextRecord, decltype(&::cuptiActivityGetNextRecord), true)                \
  X(ActivityGetNumDroppedRecords, decltype(&::cuptiActivityGetNumDroppedRecords), false) \
  X(SetThreadIdType, SetThreadIdTypeFn, false)

struct ApiTable {
#define STEPAGENT_DECLARE(name, type, required) type name = nullptr;
  STEPAGENT_CUPTI_FUNCTIONS(STEPAGENT_DECLARE)
#undef STEPAGENT_DECLARE

  // Looks every symbol up in `handle` (dlopen's). Returns "" or the required symbol that is
  // missing.
  [[nodiscard]] std::string Fill(void* handle);
  // The library's name for a result code, with the number: "CUPTI_ERROR_NOT_INITIALIZED (15)".
  [[nodiscard]] std::string ResultText(int result) const;
};

}  // namespace stepagent::cupti
