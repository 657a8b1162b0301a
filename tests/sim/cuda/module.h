// Modules, libraries and kernels: names from PTX text, durations from directives or a default.
//
// Threads: any. Failure: CUresult codes. Functions live as long as the process.
#pragma once

#include <cuda.h>

#include <map>
#include <string>

#include "cuda/engine.h"

namespace stepagent::sim {

constexpr uint32_t kModuleMagic = 0x4d4f4431;

struct Module {
  uint32_t magic = kModuleMagic;
  uint32_t id = 0;
  bool is_text = false;  // PTX: only its entries exist; else any name does
  std::map<std::string, Function*> functions;
  std::map<std::string, void*> globals;
};

CUresult LoadModule(const void* image, Module** module);
CUresult LoadModuleFile(const char* path, Module** module);
CUresult UnloadModule(Module* module);
CUresult FindFunction(Module* module, const char* name, Function** function);
CUresult FindGlobal(Module* module, const char* name, CUdeviceptr* pointer, size_t* bytes);

// The kernel of that name and duration; the same pair gives the same object.
Function* RegisterKernel(const char* name, int64_t duration_ns);
Function* ToFunction(const void* handle);
[[nodiscard]] int64_t DefaultKernelNs();

struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};
CUresult LaunchKernel(const Function* function, const LaunchShape& shape, Stream& stream);
// The operation and its duration, as a graph node needs them.
DeviceOp KernelOp(const Function& function, const LaunchShape& shape);
[[nodiscard]] int64_t KernelDuration(const Function& function);

// Name of a kernel handle for callbacks; NULL when it is not one.
const char* SymbolOf(CUfunction handle);

}  // namespace stepagent::sim
