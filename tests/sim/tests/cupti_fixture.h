// One personality's libcupti, loaded by path, and a collector of what it delivers.
//
// The personality is named by STEPAGENT_SIM_TEST_PERSONALITY (default 13.0), so that one binary
// serves all. Threads: the collector's callbacks may run on any thread. Failure: gtest failures.
#pragma once

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cupti/personality.h"
#include "tests/driver_fixture.h"

namespace stepagent::sim_test {

#define SIM_TEST_CUPTI_FUNCTIONS(X)                                                               \
  X(cuptiGetVersion)                                                                              \
  X(cuptiGetTimestamp)                                                                            \
  X(cuptiGetResultString) X(cuptiGetLastError) X(cuptiGetCallbackName) X(cuptiSubscribe)          \
      X(cuptiUnsubscribe) X(cuptiEnableCallback) X(cuptiEnableDomain) X(cuptiActivityEnable)      \
          X(cuptiActivityDisable) X(cuptiActivityEnableAndDump) X(cuptiActivityRegisterCallbacks) \
              X(cuptiActivityFlushAll) X(cuptiActivityFlushPeriod) X(cuptiActivityGetNextRecord)  \
                  X(cuptiActivityGetNumDroppedRecords) X(cuptiActivityGetAttribute)               \
                      X(cuptiActivitySetAttribute) X(cuptiActivityPushExternalCorrelationId)      \
                          X(cuptiActivityPopExternalCorrelationId)                                \
                              X(cuptiActivityRegisterTimestampCallback) X(cuptiFinalize)          \
                                  X(cuptiSetThreadIdType) X(cuptiGetContextId)                    \
                                      X(cuptiGetStreamIdEx) X(cuptiGetDeviceId)                   \
                                          X(cuptiGetGraphNodeId) X(cuptiActivityEnableDriverApi)  \
                                              X(cuptiActivityEnableRuntimeApi)                    \
                                                  X(cuptiGetErrorMessage) X(cuptiGetGraphExecId)  \
                                                      X(cuptiGetGraphId)

struct Cupti {
  void* library = nullptr;
#define SIM_TEST_FIELD(name) decltype(&::name) name = nullptr;
  SIM_TEST_CUPTI_FUNCTIONS(SIM_TEST_FIELD)
#undef SIM_TEST_FIELD
};

// The library of the personality under test, or another by path.
const Cupti& TheCupti();
Cupti LoadCupti(const std::string& path);
std::string PersonalityName();
std::string LibraryPath(const std::string& personality);
const sim::Personality& Under();

#define EXPECT_CUPTI(call) EXPECT_EQ((call), CUPTI_SUCCESS)

// One delivered record, kept as bytes.
struct Record {
  std::vector<uint8_t> bytes;
  uint32_t buffer = 0;

  template <class T>
  [[nodiscard]] T At(size_t offset) const {
    T value{};
    if (offset + sizeof(T) <= bytes.size()) memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }
  [[nodiscard]] uint32_t kind() const { return At<uint32_t>(0); }
};

// What the buffer callbacks saw. One per process.
struct Delivered {
  std::mutex mutex;
  std::vector<Record> records;
  std::set<uint64_t> request_threads;
  std::set<uint64_t> complete_threads;
  uint32_t requested = 0;
  uint32_t completed = 0;
  size_t buffer_bytes = 65536;
  size_t record_limit = 0;
  bool refuses = false;
  size_t misalignment = 0;
  void (*in_callback)() = nullptr;

  [[nodiscard]] std::vector<Record> Of(uint32_t kind);
  [[nodiscard]] size_t Count(uint32_t kind) { return Of(kind).size(); }
};
Delivered& TheDelivered();

// cuInit, a context, registered buffers, these kinds on.
void Collect(std::initializer_list<int> kinds);
void Flush(uint32_t flag = 0);
// Waits for the device, then flushes.
void FinishAndFlush();

// API callbacks as the subscriber saw them.
struct Seen {
  uint32_t domain;
  uint32_t cbid;
  CUpti_ApiCallbackSite site;
  std::string function;
  std::string symbol;
  uint32_t correlation_id;
  uint64_t correlation_data;
  int return_value;
  uint32_t context_uid;
  unsigned grid_x;
};
std::vector<Seen>& TheSeen();
CUpti_SubscriberHandle Subscribe();

}  // namespace stepagent::sim_test
