// Exported functions: modules, libraries, kernels and launches.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include "cuda/module.h"
#include "cuda/trace.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

Module* ToModule(const void* handle) {
  return HandleCast<Module>(const_cast<void*>(handle), kModuleMagic);
}

CUresult LoadInto(CUmodule* handle, const void* image) {
  Module* module = nullptr;
  const CUresult result = LoadModule(image, &module);
  if (result == CUDA_SUCCESS) *handle = reinterpret_cast<CUmodule>(module);
  return result;
}

CUresult GetFunction(CUfunction* handle, const void* module_handle, const char* name) {
  Module* module = ToModule(module_handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Function* function = nullptr;
  const CUresult result = FindFunction(module, name, &function);
  if (result == CUDA_SUCCESS) *handle = reinterpret_cast<CUfunction>(function);
  return result;
}

CUresult Launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle,
                bool per_thread) {
  const Function* function = ToFunction(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(stream_handle, per_thread, &stream);
  return result != CUDA_SUCCESS ? result : LaunchKernel(function, shape, *stream);
}

CUresult FunctionAttribute(int* value, CUfunction_attribute attribute, const void* handle) {
  if (ToFunction(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 80;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = 49152;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult Occupancy(int* blocks, const void* handle, int block_size) {
  if (ToFunction(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  *blocks = 2048 / block_size;
  return CUDA_SUCCESS;
}

LaunchShape ShapeOf(const CUlaunchConfig& config) {
  return {{config.gridDimX, config.gridDimY, config.gridDimZ},
          {config.blockDimX, config.blockDimY, config.blockDimZ},
          config.sharedMemBytes};
}

}  // namespace

SIM_API(cuModuleLoad, (CUmodule * module, const char* fname), (module, fname), {
  Module* loaded = nullptr;
  const CUresult result = LoadModuleFile(fname, &loaded);
  if (result == CUDA_SUCCESS) *module = reinterpret_cast<CUmodule>(loaded);
  return result;
})
SIM_API(cuModuleLoadData, (CUmodule * module, const void* image), (module, image),
        return LoadInto(module, image);)
SIM_API(cuModuleLoadFatBinary, (CUmodule * module, const void* fatCubin), (module, fatCubin),
        return LoadInto(module, fatCubin);)
SIM_API(cuModuleLoadDataEx,
        (CUmodule * module, const void* image, unsigned int numOptions, CUjit_option* options,
         void** optionValues),
        (module, image, numOptions, options, optionValues), return LoadInto(module, image);)
SIM_API(cuModuleUnload, (CUmodule hmod), (hmod), {
  Module* module = ToModule(hmod);
  return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : UnloadModule(module);
})
SIM_API(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char* name),
        (hfunc, hmod, name), return GetFunction(hfunc, hmod, name);)
SIM_API(cuModuleGetGlobal_v2, (CUdeviceptr * dptr, size_t* bytes, CUmodule hmod, const char* name),
        (dptr, bytes, hmod, name), {
          Module* module = ToModule(hmod);
          return module == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                   : FindGlobal(module, name, dptr, bytes);
        })
SIM_API(cuFuncGetAttribute, (int* pi, CUfunction_attribute attrib, CUfunction hfunc),
        (pi, attrib, hfunc), return FunctionAttribute(pi, attrib, hfunc);)
SIM_API(cuFuncSetAttribute, (CUfunction hfunc, CUfunction_attribute attrib, int value),
        (hfunc, attrib, value),
        { return ToFunction(hfunc) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS; })
SIM_API(cuFuncSetCacheConfig, (CUfunction hfunc, CUfunc_cache config), (hfunc, config),
        { return ToFunction(hfunc) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS; })
SIM_API(cuFuncGetModule, (CUmodule * hmod, CUfunction hfunc), (hmod, hfunc), {
  const Function* function = ToFunction(hfunc);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *hmod = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
})
SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize),
        (numBlocks, func, blockSize, dynamicSMemSize),
        return Occupancy(numBlocks, func, blockSize);)
SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize,
         unsigned int flags),
        (numBlocks, func, blockSize, dynamicSMemSize, flags),
        return Occupancy(numBlocks, func, blockSize);)
SIM_API(cuOccupancyMaxPotentialBlockSize,
        (int* minGridSize, int* blockSize, CUfunction func,
         CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit),
        (minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit),
        {
          if (ToFunction(func) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
          *minGridSize = 216;
          *blockSize = 1024;
          return CUDA_SUCCESS;
        })

#if CUDA_VERSION >= 12000
// A library is a module that is not bound to a context; a kernel is its function.
SIM_API(cuLibraryLoadData,
        (CUlibrary * library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
         unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
         unsigned int numLibraryOptions),
        (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
         libraryOptionValues, numLibraryOptions),
        {
          Module* module = nullptr;
          const CUresult result = LoadModule(code, &module);
          if (result == CUDA_SUCCESS) *library = reinterpret_cast<CUlibrary>(module);
          return result;
        })
SIM_API(cuLibraryUnload, (CUlibrary library), (library), {
  Module* module = ToModule(library);
  return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : UnloadModule(module);
})
SIM_API(cuLibraryGetKernel, (CUkernel * pKernel, CUlibrary library, const char* name),
        (pKernel, library, name),
        return GetFunction(reinterpret_cast<CUfunction*>(pKernel), library, name);)
SIM_API(cuLibraryGetModule, (CUmodule * pMod, CUlibrary library), (pMod, library), {
  if (ToModule(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pMod = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
})
SIM_API(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel), {
  if (ToFunction(kernel) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pFunc = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
})
SIM_API(cuKernelGetAttribute, (int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev),
        (pi, attrib, kernel, dev), return FunctionAttribute(pi, attrib, kernel);)
SIM_API(cuKernelSetAttribute, (CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev),
        (attrib, val, kernel, dev),
        { return ToFunction(kernel) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS; })
#endif
#if CUDA_VERSION >= 12030
SIM_API(cuFuncGetName, (const char** name, CUfunction hfunc), (name, hfunc), {
  *name = SymbolOf(hfunc);
  return *name == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
})
SIM_API(cuKernelGetName, (const char** name, CUkernel hfunc), (name, hfunc), {
  *name = SymbolOf(reinterpret_cast<CUfunction>(hfunc));
  return *name == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
})
#endif

#define SIM_LAUNCH_KERNEL(name, is_per_thread)                                                    \
  SIM_LAUNCH_API(                                                                                 \
      name,                                                                                       \
      (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,         \
       unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
       unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra),         \
      (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, \
       kernelParams, extra),                                                                      \
      SymbolOf(f),                                                                                \
      return Launch(                                                                              \
          f, {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes}, \
          hStream, is_per_thread);)
SIM_LAUNCH_KERNEL(cuLaunchKernel, false)
SIM_LAUNCH_KERNEL(cuLaunchKernel_ptsz, true)

#define SIM_LAUNCH_COOPERATIVE(name, is_per_thread)                                               \
  SIM_LAUNCH_API(                                                                                 \
      name,                                                                                       \
      (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,         \
       unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
       unsigned int sharedMemBytes, CUstream hStream, void** kernelParams),                       \
      (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, \
       kernelParams),                                                                             \
      SymbolOf(f),                                                                                \
      return Launch(                                                                              \
          f, {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes}, \
          hStream, is_per_thread);)
SIM_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, false)
SIM_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

#define SIM_LAUNCH_EX(name, is_per_thread)                                                   \
  SIM_LAUNCH_API(                                                                            \
      name, (const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra), \
      (config, f, kernelParams, extra), SymbolOf(f),                                         \
      return config == nullptr ? CUDA_ERROR_INVALID_VALUE                                    \
                               : Launch(f, ShapeOf(*config), config->hStream, is_per_thread);)
SIM_LAUNCH_EX(cuLaunchKernelEx, false)
SIM_LAUNCH_EX(cuLaunchKernelEx_ptsz, true)
