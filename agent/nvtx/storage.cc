#include "agent/nvtx/storage.h"

#include <sys/mman.h>

#include <cerrno>

#include "agent/core/phase_words.h"
#include "agent/nvtx/thread_block.h"

namespace stepagent::nvtx {
namespace {

constinit std::atomic<uint32_t> state{0};  // 0 not, 1 under way, 2 there, 3 refused
constexpr uint64_t kInitWaitNs = 10'000'000;
constexpr int kInitWaits = 10;

// Hands out parts of one mapping, each on its own cache lines.
class Carver {
 public:
  template <typename T>
  void Take(T** part, size_t count) {
    if (base_ != nullptr) *part = reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 63) & ~size_t{63};
  }
  void SetBase(char* base) {
    base_ = base;
    used_ = 0;
  }
  [[nodiscard]] size_t used() const { return used_; }

 private:
  char* base_ = nullptr;
  size_t used_ = 0;
};

void CarveAll(Carver* carver) {
  carver->Take(&g_storage.blocks, kBlocks);
  carver->Take(&g_storage.next_block, kBlocks);
  carver->Take(&g_storage.starts, size_t{kBlocks} * kStartWords);
  carver->Take(&g_storage.string_memo, core::kMaxNames);
  carver->Take(&g_storage.domain_base, core::kMaxNames * kDomainStride);
  carver->Take(&g_storage.seen, kSeenSlots);
  carver->Take(&g_storage.given, kGivenNames);
}

bool MapAll() {
  Carver measure;
  CarveAll(&measure);
  void* memory = mmap(nullptr, measure.used(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  madvise(memory, measure.used(), MADV_NOHUGEPAGE);  // sparse: a touch must cost 4 KiB, not 2 MiB
  Carver carver;
  carver.SetBase(static_cast<char*>(memory));
  CarveAll(&carver);
  return true;
}

}  // namespace

constinit Storage g_storage;

bool InitStorage() noexcept {
  uint32_t seen = state.load(std::memory_order_acquire);
  if (seen == 0 && state.compare_exchange_strong(seen, 1, std::memory_order_acq_rel)) {
    const int saved = errno;
    const bool ready = core::NameTable::Init() && MapAll();
    if (ready) InitBlocks();
    errno = saved;
    state.store(ready ? 2 : 3, std::memory_order_release);
    core::FutexWake(&state);
    return ready;
  }
  // Another thread is at it. A child forked in that moment would wait for ever: give up in time.
  for (int i = 0; i < kInitWaits && state.load(std::memory_order_acquire) == 1; ++i) {
    core::FutexWait(&state, 1, kInitWaitNs);
  }
  return state.load(std::memory_order_acquire) == 2;
}

void WipeSeen() noexcept {
  if (g_storage.seen == nullptr) return;
  for (uint32_t i = 0; i < kSeenSlots; ++i) {
    // Looked at first, so that empty pages stay untouched.
    if (g_storage.seen[i].key.load(std::memory_order_relaxed) == 0) continue;
    g_storage.seen[i].key.store(0, std::memory_order_relaxed);
    g_storage.seen[i].count.store(0, std::memory_order_relaxed);
  }
}

}  // namespace stepagent::nvtx
