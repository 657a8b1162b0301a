#include "cuda/module.h"

#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "common/settings.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

constexpr const char* kDirective = "sim.duration_ns=";
constexpr size_t kGlobalBytes = 4096;

bool IsPtx(const char* image) {
  // PTX begins with comments and blanks, then a directive such as .version.
  while (*image != '\0') {
    if (isspace(static_cast<unsigned char>(*image)) != 0) {
      ++image;
    } else if (strncmp(image, "//", 2) == 0) {
      while (*image != '\0' && *image != '\n') ++image;
    } else if (strncmp(image, "/*", 2) == 0) {
      image = strstr(image, "*/");
      if (image == nullptr) return false;
      image += 2;
    } else {
      return strncmp(image, ".version", 8) == 0;
    }
  }
  return false;
}

int64_t ParseDuration(const char* text) {
  if (strncmp(text, "forever", 7) == 0) return kNever;
  return strtoll(text, nullptr, 10);
}

std::string IdentifierAt(const char* text) {
  while (isspace(static_cast<unsigned char>(*text)) != 0) ++text;
  const char* end = text;
  while (isalnum(static_cast<unsigned char>(*end)) != 0 || strchr("_$%.", *end) != nullptr) {
    if (*end == '\0') break;
    ++end;
  }
  return {text, end};
}

// A duration directive counts for the next .entry only.
void ParsePtx(const char* text, Module* module) {
  int64_t duration = DefaultKernelNs();
  for (const char* at = text; *at != '\0'; ++at) {
    if (strncmp(at, kDirective, strlen(kDirective)) == 0) {
      duration = ParseDuration(at + strlen(kDirective));
    } else if (strncmp(at, ".entry", 6) == 0 && isspace(static_cast<unsigned char>(at[6])) != 0) {
      const std::string name = IdentifierAt(at + 6);
      auto* function = new Function;
      function->name = Intern(name.c_str());
      function->duration_ns = duration;
      function->module = module;
      module->functions[name] = function;
      duration = DefaultKernelNs();
    }
  }
}

// Scripted: kernels whose name matches never end, from the n-th launch of such a kernel on.
bool IsHung(const Function& function) {
  struct Script {
    std::string pattern = SettingText("HANG_KERNEL");
    uint64_t first = 1;
    std::atomic<uint64_t> seen{0};
    Script() {
      const size_t at = pattern.rfind('@');
      if (at == std::string::npos) return;
      first = strtoull(pattern.c_str() + at + 1, nullptr, 10);
      pattern.resize(at);
    }
  };
  static auto* script = new Script;
  if (script->pattern.empty() || !MatchesGlob(script->pattern.c_str(), function.name)) return false;
  return script->seen.fetch_add(1, std::memory_order_relaxed) + 1 == script->first;
}

}  // namespace

int64_t DefaultKernelNs() {
  static const int64_t duration = SettingInt("KERNEL_NS", 10000);
  return duration;
}

CUresult LoadModule(const void* image, Module** module_out) {
  static std::atomic<uint32_t> next_id{1};
  static const int64_t load_ns = SettingInt("MODULE_LOAD", 0);
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (image == nullptr || module_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (load_ns > 0) SleepUntil(MonotonicNs() + load_ns);
  auto* module = new Module;
  module->id = next_id.fetch_add(1, std::memory_order_relaxed);
  const auto* text = static_cast<const char*>(image);
  module->is_text = IsPtx(text);
  if (module->is_text) ParsePtx(text, module);
  ResourceEvent event{};
  event.context = reinterpret_cast<CUcontext>(CurrentContext());
  event.module_id = module->id;
  event.module_image = image;
  event.module_bytes = module->is_text ? strlen(text) : 0;
  AnnounceResource(CUPTI_CBID_RESOURCE_MODULE_LOADED, event);
  *module_out = module;
  return CUDA_SUCCESS;
}

CUresult LoadModuleFile(const char* path, Module** module) {
  std::ifstream in(path == nullptr ? "" : path, std::ios::binary);
  if (!in) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  return LoadModule(content.c_str(), module);
}

CUresult UnloadModule(Module* module) {
  ResourceEvent event{};
  event.context = reinterpret_cast<CUcontext>(CurrentContext());
  event.module_id = module->id;
  AnnounceResource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, event);
  module->magic = 0;
  return CUDA_SUCCESS;
}

CUresult FindFunction(Module* module, const char* name, Function** function) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(EngineLock());
  const auto found = module->functions.find(name);
  if (found != module->functions.end()) {
    *function = found->second;
    return CUDA_SUCCESS;
  }
  if (module->is_text) return CUDA_ERROR_NOT_FOUND;
  auto* made = new Function;
  made->name = Intern(name);
  made->duration_ns = DefaultKernelNs();
  made->module = module;
  module->functions[name] = made;
  *function = made;
  return CUDA_SUCCESS;
}

// Variables are not parsed: each name asked for gets a page of zeros.
CUresult FindGlobal(Module* module, const char* name, CUdeviceptr* pointer, size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(EngineLock());
  void*& memory = module->globals[name];
  if (memory == nullptr) memory = calloc(1, kGlobalBytes);
  if (pointer != nullptr) *pointer = reinterpret_cast<CUdeviceptr>(memory);
  if (bytes != nullptr) *bytes = kGlobalBytes;
  return CUDA_SUCCESS;
}

Function* RegisterKernel(const char* name, int64_t duration_ns) {
  static auto* mutex = new std::mutex;
  static auto* kernels = new std::map<std::pair<std::string, int64_t>, Function*>;
  const std::lock_guard lock(*mutex);
  Function*& function = (*kernels)[{name, duration_ns}];
  if (function == nullptr) {
    function = new Function;
    function->name = Intern(name);
    function->duration_ns = duration_ns;
  }
  return function;
}

Function* ToFunction(const void* handle) {
  return HandleCast<Function>(const_cast<void*>(handle), kFunctionMagic);
}

const char* SymbolOf(CUfunction handle) {
  const Function* function = ToFunction(handle);
  return function == nullptr ? nullptr : function->name;
}

int64_t KernelDuration(const Function& function) {
  const int64_t duration = TakeDuration(function.duration_ns);
  return IsHung(function) ? kNever : duration;
}

DeviceOp KernelOp(const Function& function, const LaunchShape& shape) {
  DeviceOp op{};
  op.type = OpType::kKernel;
  op.name = function.name;
  for (int i = 0; i < 3; ++i) {
    op.grid[i] = shape.grid[i];
    op.block[i] = shape.block[i];
  }
  op.registers_per_thread = 32;
  op.dynamic_shared_bytes = shape.shared_bytes;
  return op;
}

CUresult LaunchKernel(const Function* function, const LaunchShape& shape, Stream& stream) {
  Add(Counters().launches);
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  if (uint64_t{shape.block[0]} * shape.block[1] * shape.block[2] > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int64_t end_ns = 0;
  return SubmitOp(stream, KernelOp(*function, shape), KernelDuration(*function), Effect{}, &end_ns);
}

}  // namespace stepagent::sim
