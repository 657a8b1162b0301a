// Walk is on HOT PATH A.
#include "agent/unwind/unwinder.h"

#include <dlfcn.h>
#include <unistd.h>
// The names of the library's own process, not of a remote one.
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <atomic>

#include "agent/guard/loader_gate.h"
#include "agent/unwind/frame_chain.h"

namespace stepagent::unwind {
namespace {

// The soname of libunwind 1.1 to 1.8. LLVM's library of a like name has no unw_backtrace.
constexpr const char* kLibrary = "libunwind.so.8";
constexpr uint64_t kGateWaitNs = 5'000'000'000;

using Backtrace = decltype(&::unw_backtrace);

constinit std::atomic<Backtrace> g_backtrace{nullptr};
constinit pid_t g_loaded_in = 0;

}  // namespace

std::string Unwinder::Load() {
  const pid_t self = getpid();
  if (g_backtrace.load(std::memory_order_relaxed) != nullptr) {
    // Another thread of the parent may have held one of its locks.
    return g_loaded_in == self ? "" : "libunwind was loaded before this process was forked";
  }
  const guard::LoaderGate::Scope gate(kGateWaitNs);
  if (!gate) return "the loader gate did not open: a fork seems to hang";
  // Leaked: its per-thread data is freed by code of its own when threads end.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = dlerror();
    return std::string(kLibrary) + " cannot be loaded: " + (why == nullptr ? "no reason" : why);
  }
  const auto backtrace = reinterpret_cast<Backtrace>(dlsym(library, "unw_backtrace"));
  if (backtrace == nullptr) return std::string(kLibrary) + " has no unw_backtrace";
  // Its first call sets up tables that all threads share: here, not in an application thread.
  void* frames[4];
  (void)backtrace(frames, 4);
  (void)FrameChain::Init(library);
  g_loaded_in = self;
  g_backtrace.store(backtrace, std::memory_order_release);  // pairs with Walk
  return "";
}

uint32_t Unwinder::Walk(uintptr_t* frames, uint32_t most) noexcept {
  const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire);  // pairs with Load
  if (backtrace == nullptr) return 0;
  const int count = backtrace(reinterpret_cast<void**>(frames), static_cast<int>(most));
  return count < 0 ? 0 : static_cast<uint32_t>(count);
}

}  // namespace stepagent::unwind
