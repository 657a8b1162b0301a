// cuGetProcAddress: the same answers as dlsym plus the rules about versions and default streams.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "common/settings.h"

#if CUDA_VERSION < 12000
// The status that the later form reports.
enum CUdriverProcAddressQueryResult {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};
#endif

namespace {

// Base names whose meaning changed: from `version` on the entry with `suffix` is meant. Sorted by
// name, newest first within a name; a name that is absent means its plain entry.
struct Variant {
  const char* name;
  int version;
  const char* suffix;
};
constexpr Variant kVariants[] = {
    {"cuCtxCreate", 13000, "_v4"},
    {"cuCtxCreate", 11040, "_v3"},
    {"cuCtxCreate", 3020, "_v2"},
    {"cuCtxDestroy", 4000, "_v2"},
    {"cuCtxGetDevice", 13000, "_v2"},
    {"cuCtxPopCurrent", 4000, "_v2"},
    {"cuCtxPushCurrent", 4000, "_v2"},
    {"cuCtxSynchronize", 13000, "_v2"},
    {"cuDeviceGetUuid", 11040, "_v2"},
    {"cuDevicePrimaryCtxRelease", 11000, "_v2"},
    {"cuDevicePrimaryCtxReset", 11000, "_v2"},
    {"cuDevicePrimaryCtxSetFlags", 11000, "_v2"},
    {"cuDeviceTotalMem", 3020, "_v2"},
    {"cuEventDestroy", 4000, "_v2"},
    {"cuEventElapsedTime", 12080, "_v2"},
    {"cuGetProcAddress", 12000, "_v2"},
    {"cuGraphAddDependencies", 12030, "_v2"},
    {"cuGraphAddKernelNode", 12000, "_v2"},
    {"cuGraphAddNode", 12030, "_v2"},
    {"cuGraphExecKernelNodeSetParams", 12000, "_v2"},
    {"cuGraphExecUpdate", 12000, "_v2"},
    {"cuGraphInstantiate", 12000, "WithFlags"},
    {"cuGraphInstantiate", 11000, "_v2"},
    {"cuMemAlloc", 3020, "_v2"},
    {"cuMemAllocHost", 3020, "_v2"},
    {"cuMemAllocPitch", 3020, "_v2"},
    {"cuMemFree", 3020, "_v2"},
    {"cuMemGetAddressRange", 3020, "_v2"},
    {"cuMemGetInfo", 3020, "_v2"},
    {"cuMemHostGetDevicePointer", 3020, "_v2"},
    {"cuMemHostRegister", 6050, "_v2"},
    {"cuMemcpy2D", 3020, "_v2"},
    {"cuMemcpy2DAsync", 3020, "_v2"},
    {"cuMemcpy2DUnaligned", 3020, "_v2"},
    {"cuMemcpyDtoD", 3020, "_v2"},
    {"cuMemcpyDtoDAsync", 3020, "_v2"},
    {"cuMemcpyDtoH", 3020, "_v2"},
    {"cuMemcpyDtoHAsync", 3020, "_v2"},
    {"cuMemcpyHtoD", 3020, "_v2"},
    {"cuMemcpyHtoDAsync", 3020, "_v2"},
    {"cuMemsetD16", 3020, "_v2"},
    {"cuMemsetD2D8", 3020, "_v2"},
    {"cuMemsetD32", 3020, "_v2"},
    {"cuMemsetD8", 3020, "_v2"},
    {"cuModuleGetGlobal", 3020, "_v2"},
    {"cuStreamBeginCapture", 10010, "_v2"},
    {"cuStreamDestroy", 4000, "_v2"},
    {"cuStreamGetCaptureInfo", 12000, "_v2"},
};

// When a function first appeared; anything not listed has always been there.
struct Introduced {
  const char* name;
  int version;
};
constexpr Introduced kIntroduced[] = {
    {"cuMemAllocAsync", 11020},
    {"cuMemFreeAsync", 11020},
    {"cuMemAllocFromPoolAsync", 11020},
    {"cuDeviceGetDefaultMemPool", 11020},
    {"cuEventRecordWithFlags", 11010},
    {"cuGraphUpload", 11010},
    {"cuLaunchKernelEx", 11060},
    {"cuLibraryLoadData", 12000},
    {"cuLibraryGetKernel", 12000},
    {"cuKernelGetFunction", 12000},
    {"cuCtxGetId", 12000},
    {"cuStreamGetId", 12000},
    {"cuGraphInstantiateWithParams", 12000},
    {"cuFuncGetName", 12030},
    {"cuKernelGetName", 12030},
    {"cuGraphAddNode", 12020},
    {"cuGraphConditionalHandleCreate", 12030},
    {"cuGraphCreate", 10000},
    {"cuGraphLaunch", 10000},
    {"cuStreamEndCapture", 10000},
    {"cuLaunchHostFunc", 10000},
    {"cuLaunchCooperativeKernel", 9000},
};

void* Self() {
  static void* handle = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuGetProcAddress), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

// Entries that the library does not export by name (see libcuda.map).
void* Unexported([[maybe_unused]] const std::string& name) {
#if CUDA_VERSION >= 13000
  if (name == "cuCtxGetDevice_v2") return reinterpret_cast<void*>(&cuCtxGetDevice_v2);
  if (name == "cuCtxSynchronize_v2") return reinterpret_cast<void*>(&cuCtxSynchronize_v2);
#endif
  return nullptr;
}

void* Symbol(const std::string& name) {
  void* found = dlsym(Self(), name.c_str());
  return found != nullptr ? found : Unexported(name);
}

std::string EntryFor(const char* symbol, int version) {
  for (const Variant& variant : kVariants) {
    if (strcmp(variant.name, symbol) == 0 && version >= variant.version) {
      return std::string(symbol) + variant.suffix;
    }
  }
  return symbol;
}

void* PerThread(const std::string& entry) {
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    if (void* found = Symbol(entry + suffix)) return found;
  }
  return nullptr;
}

CUresult Find(const char* symbol, void** pointer, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr;
  const std::string entry = EntryFor(symbol, version);
  for (const Introduced& introduced : kIntroduced) {
    if (strcmp(introduced.name, symbol) == 0 && version < introduced.version) {
      if (status != nullptr) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      return CUDA_ERROR_NOT_FOUND;
    }
  }
  if (strncmp(symbol, "cu", 2) == 0) {
    if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) *pointer = PerThread(entry);
    if (*pointer == nullptr) *pointer = Symbol(entry);
  }
  const bool is_found = *pointer != nullptr;
  if (status != nullptr) {
    *status = is_found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return is_found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

extern "C" CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                             cuuint64_t flags) {
  return Find(symbol, pfn, cudaVersion, flags, nullptr);
}

#undef cuGetProcAddress_v2
extern "C" CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion,
                                                cuuint64_t flags,
                                                CUdriverProcAddressQueryResult* symbolStatus) {
  return Find(symbol, pfn, cudaVersion, flags, symbolStatus);
}
