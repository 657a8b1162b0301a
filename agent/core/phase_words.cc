#include "agent/core/phase_words.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace stepagent::core {
namespace {

constexpr size_t kPageBytes = 4096;
static_assert(sizeof(PhaseWords) <= kPageBytes);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex word is 32 bits");

constinit PhaseWords inert_words;
constinit PhaseWords* mapped_words = nullptr;

}  // namespace

constinit PhaseWords* g_words = &inert_words;

bool MapPhaseWords() {
  if (mapped_words == nullptr) {
    void* page =
        mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    // Kernels before 4.14 cannot wipe: a child would act on the parent's words, so stay inert.
    if (madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
      munmap(page, kPageBytes);
      return false;
    }
    mapped_words = static_cast<PhaseWords*>(page);  // zero pages are valid PhaseWords
    g_words = mapped_words;
  }
  mapped_words->alive.store(1, std::memory_order_release);
  return true;
}

void BumpAndWake(std::atomic<uint32_t>* word) noexcept {
  word->fetch_add(1, std::memory_order_release);
  FutexWake(word);
}

void FutexWake(std::atomic<uint32_t>* word) noexcept {
  const int saved = errno;  // callers are application threads and a signal handler
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t seen, uint64_t timeout_ns) noexcept {
  const int saved = errno;
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1000000000U);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1000000000U);
  syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen,
          timeout_ns == 0 ? nullptr : &timeout, nullptr, 0);
  errno = saved;
}

}  // namespace stepagent::core
