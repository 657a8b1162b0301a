// Exported functions: version, texts, time, identities. Most work with no driver.
#include <cstring>
#include <string>

#include "common/clock.h"
#include "common/settings.h"
#include "cupti/names.h"
#include "cupti/state.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

struct ResultText {
  int code;
  const char* text;
};
#define SIM_RESULT(name) \
  { name, #name }
constexpr ResultText kResults[] = {
    SIM_RESULT(CUPTI_SUCCESS),
    SIM_RESULT(CUPTI_ERROR_INVALID_PARAMETER),
    SIM_RESULT(CUPTI_ERROR_INVALID_DEVICE),
    SIM_RESULT(CUPTI_ERROR_INVALID_CONTEXT),
    SIM_RESULT(CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID),
    SIM_RESULT(CUPTI_ERROR_INVALID_EVENT_ID),
    SIM_RESULT(CUPTI_ERROR_INVALID_EVENT_NAME),
    SIM_RESULT(CUPTI_ERROR_INVALID_OPERATION),
    SIM_RESULT(CUPTI_ERROR_OUT_OF_MEMORY),
    SIM_RESULT(CUPTI_ERROR_HARDWARE),
    SIM_RESULT(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT),
    SIM_RESULT(CUPTI_ERROR_API_NOT_IMPLEMENTED),
    SIM_RESULT(CUPTI_ERROR_MAX_LIMIT_REACHED),
    SIM_RESULT(CUPTI_ERROR_NOT_READY),
    SIM_RESULT(CUPTI_ERROR_NOT_COMPATIBLE),
    SIM_RESULT(CUPTI_ERROR_NOT_INITIALIZED),
    SIM_RESULT(CUPTI_ERROR_INVALID_METRIC_ID),
    SIM_RESULT(CUPTI_ERROR_INVALID_METRIC_NAME),
    SIM_RESULT(CUPTI_ERROR_QUEUE_EMPTY),
    SIM_RESULT(CUPTI_ERROR_INVALID_HANDLE),
    SIM_RESULT(CUPTI_ERROR_INVALID_STREAM),
    SIM_RESULT(CUPTI_ERROR_INVALID_KIND),
    SIM_RESULT(CUPTI_ERROR_INVALID_EVENT_VALUE),
    SIM_RESULT(CUPTI_ERROR_DISABLED),
    SIM_RESULT(CUPTI_ERROR_INVALID_MODULE),
    SIM_RESULT(CUPTI_ERROR_INVALID_METRIC_VALUE),
    SIM_RESULT(CUPTI_ERROR_HARDWARE_BUSY),
    SIM_RESULT(CUPTI_ERROR_NOT_SUPPORTED),
    SIM_RESULT(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED),
    SIM_RESULT(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE),
    SIM_RESULT(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES),
    SIM_RESULT(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS),
    SIM_RESULT(CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED),
    SIM_RESULT(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED),
    SIM_RESULT(CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE),
    SIM_RESULT(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES),
    SIM_RESULT(CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED),
    SIM_RESULT(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
    SIM_RESULT(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES),
    // By number: newer than the oldest header.
    {41, "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED"},
    {42, "CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED"},
    {43, "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED"},
    {44, "CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED"},
    {45, "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED"},
    {46, "CUPTI_ERROR_INVALID_CHIP_NAME"},
    SIM_RESULT(CUPTI_ERROR_UNKNOWN),
};
#undef SIM_RESULT

// Measured: 43 to 46 have no text before 13.
bool IsKnownResult(int code) {
  return code < 43 || code > 46 || ThePersonality().api_version >= 130000;
}

CUptiResult TextOf(int code, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  for (const ResultText& result : kResults) {
    if (result.code != code || !IsKnownResult(code)) continue;
    *text = result.text;
    return CUPTI_SUCCESS;
  }
  *text = "<unknown>";
  return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult NameOf(uint32_t domain, uint32_t cbid, const char** name) {
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const char* found = nullptr;
  if (domain == kDomainDriver && static_cast<int>(cbid) < ThePersonality().driver_name_count) {
    found = DriverFunctionName(cbid);
  } else if (domain == kDomainRuntime &&
             static_cast<int>(cbid) < ThePersonality().runtime_name_count) {
    found = OldRuntimeFunctionName(cbid, ThePersonality().api_version);
    if (found == nullptr) found = RuntimeFunctionName(cbid);
  }
  *name = found;
  return found == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

}  // namespace

SIM_CUPTI_PURE(cuptiGetVersion, (uint32_t * version), {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = ThePersonality().api_version;
  return CUPTI_SUCCESS;
})
SIM_CUPTI_PURE(cuptiGetResultString, (CUptiResult result, const char** str),
               return TextOf(result, str);)
SIM_CUPTI_PURE(cuptiGetErrorMessage, (CUptiResult result, const char** str),
               return TextOf(result, str);)
SIM_CUPTI_PURE(cuptiGetLastError, (void), return TakeLastError();)
SIM_CUPTI_PURE(cuptiGetTimestamp, (uint64_t * timestamp), {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = static_cast<uint64_t>(HostStampNs());
  return CUPTI_SUCCESS;
})
SIM_CUPTI_PURE(cuptiGetCallbackName,
               (CUpti_CallbackDomain domain, uint32_t cbid, const char** name),
               return NameOf(domain, cbid, name);)
SIM_CUPTI_PURE(cuptiSupportedDomains, (size_t * domainCount, CUpti_DomainTable* domainTable), {
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                           CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE};
  *domainCount = 4;
  *domainTable = domains;
  return CUPTI_SUCCESS;
})

SIM_CUPTI(cuptiGetContextId, (CUcontext context, uint32_t* contextId), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (contextId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *contextId = Driver()->context_id(context);
  return *contextId == 0 ? CUPTI_ERROR_INVALID_CONTEXT : CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiGetDeviceId, (CUcontext context, uint32_t* deviceId), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (deviceId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *deviceId = Driver()->context_device(context);
  return *deviceId == 0xFFFFFFFFu ? CUPTI_ERROR_INVALID_DEVICE : CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiGetStreamIdEx,
          (CUcontext context, CUstream stream, uint8_t perThreadStream, uint32_t* streamId), {
            if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
            if (streamId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
            const bool is_found =
                Driver()->stream_id(context, stream, perThreadStream != 0, streamId);
            return is_found ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_STREAM;
          })
SIM_CUPTI(cuptiGetStreamId, (CUcontext context, CUstream stream, uint32_t* streamId), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (streamId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return Driver()->stream_id(context, stream, false, streamId) ? CUPTI_SUCCESS
                                                               : CUPTI_ERROR_INVALID_STREAM;
})
SIM_CUPTI(cuptiGetGraphId, (CUgraph graph, uint32_t* pId), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (pId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *pId = Driver()->graph_id(graph);
  return *pId == 0 ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiGetGraphExecId, (CUgraphExec graphExec, uint32_t* pId), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (pId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *pId = Driver()->graph_exec_id(graphExec);
  return *pId == 0 ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiGetGraphNodeId, (CUgraphNode node, uint64_t* nodeId), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (nodeId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *nodeId = Driver()->graph_node_id(node);
  return *nodeId == 0 ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiComputeCapabilitySupported, (int, int, int* support), {
  if (support == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *support = 1;
  return CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiDeviceSupported, (CUdevice, int* support), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  *support = 1;
  return CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiDeviceVirtualizationMode, (CUdevice, CUpti_DeviceVirtualizationMode* mode), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
  return CUPTI_SUCCESS;
})
