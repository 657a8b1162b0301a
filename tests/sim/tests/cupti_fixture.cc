#include "tests/cupti_fixture.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>

namespace stepagent::sim {
// The test reads the personality table of the simulator itself.
const char* const kPersonalityName = "13.0";
}  // namespace stepagent::sim

namespace stepagent::sim_test {
namespace {

void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  Delivered& delivered = TheDelivered();
  if (delivered.in_callback != nullptr) delivered.in_callback();
  const std::lock_guard lock(delivered.mutex);
  ++delivered.requested;
  delivered.request_threads.insert(pthread_self());
  *max_records = delivered.record_limit;
  *size = delivered.refuses ? 0 : delivered.buffer_bytes;
  auto* memory = static_cast<uint8_t*>(
      delivered.refuses ? nullptr : aligned_alloc(64, delivered.buffer_bytes + 64));
  *buffer = memory == nullptr ? nullptr : memory + delivered.misalignment;
}

void CUPTIAPI OnComplete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  Delivered& delivered = TheDelivered();
  const std::lock_guard lock(delivered.mutex);
  ++delivered.completed;
  delivered.complete_threads.insert(pthread_self());
  CUpti_Activity* record = nullptr;
  while (TheCupti().cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(record);
    const size_t size = Under().record_bytes[record->kind];
    delivered.records.push_back({{bytes, bytes + size}, delivered.completed});
  }
  free(buffer - delivered.misalignment);
}

void CUPTIAPI OnApi(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) {
    TheSeen().push_back({.domain = domain, .cbid = cbid});
    return;
  }
  const auto* info = static_cast<const CUpti_CallbackData*>(data);
  if (info->callbackSite == CUPTI_API_ENTER) *info->correlationData = 4242;
  unsigned grid_x = 0;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
    grid_x = static_cast<const cuLaunchKernel_params*>(info->functionParams)->gridDimX;
  }
  TheSeen().push_back({.domain = domain,
                       .cbid = cbid,
                       .site = info->callbackSite,
                       .function = info->functionName,
                       .symbol = info->symbolName == nullptr ? "" : info->symbolName,
                       .correlation_id = info->correlationId,
                       .correlation_data = *info->correlationData,
                       .return_value = info->functionReturnValue == nullptr
                                           ? -1
                                           : *static_cast<const int*>(info->functionReturnValue),
                       .context_uid = info->contextUid,
                       .grid_x = grid_x});
}

}  // namespace

std::string PersonalityName() {
  const char* name = getenv("STEPAGENT_SIM_TEST_PERSONALITY");
  return name == nullptr ? "13.0" : name;
}

std::string LibraryPath(const std::string& personality) {
  std::string soname = "libcupti.so.13";
  if (personality == "11.8") soname = "libcupti.so.11.8";
  if (personality.starts_with("12")) soname = "libcupti.so.12";
  return std::string(SIM_OUTPUT_FOLDER) + "/cupti-" + personality + "/" + soname;
}

const sim::Personality& Under() {
  static const sim::Personality* personality = sim::FindPersonality(PersonalityName().c_str());
  return *personality;
}

Cupti LoadCupti(const std::string& path) {
  Cupti cupti;
  cupti.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(cupti.library, nullptr) << dlerror();
#define SIM_TEST_FIND(name) \
  cupti.name = reinterpret_cast<decltype(cupti.name)>(dlsym(cupti.library, #name));
  SIM_TEST_CUPTI_FUNCTIONS(SIM_TEST_FIND)
#undef SIM_TEST_FIND
  return cupti;
}

const Cupti& TheCupti() {
  static const Cupti cupti = LoadCupti(LibraryPath(PersonalityName()));
  return cupti;
}

std::vector<Record> Delivered::Of(uint32_t kind) {
  const std::lock_guard lock(mutex);
  std::vector<Record> found;
  for (const Record& record : records) {
    if (record.kind() == kind) found.push_back(record);
  }
  return found;
}

Delivered& TheDelivered() {
  static auto* delivered = new Delivered;
  return *delivered;
}

void Collect(std::initializer_list<int> kinds) {
  UseDevice();
  EXPECT_CUPTI(TheCupti().cuptiActivityRegisterCallbacks(OnRequest, OnComplete));
  for (const int kind : kinds) {
    EXPECT_CUPTI(TheCupti().cuptiActivityEnable(static_cast<CUpti_ActivityKind>(kind)));
  }
}

void Flush(uint32_t flag) { EXPECT_CUPTI(TheCupti().cuptiActivityFlushAll(flag)); }

void FinishAndFlush() {
  EXPECT_CUDA(cuCtxSynchronize());
  Flush();
}

std::vector<Seen>& TheSeen() {
  static auto* seen = new std::vector<Seen>;
  return *seen;
}

CUpti_SubscriberHandle Subscribe() {
  CUpti_SubscriberHandle handle = nullptr;
  EXPECT_CUPTI(TheCupti().cuptiSubscribe(&handle, OnApi, nullptr));
  return handle;
}

}  // namespace stepagent::sim_test
