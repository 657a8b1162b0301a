// HOT PATH A: runs inside the application's CUDA calls. No lock, allocation, log or wait; no system
// call but libunwind's for a thread's first stack and for return addresses it has not seen. One TLS
// access.
#include "agent/unwind/stack_capture.h"

#include <link.h>

#include <atomic>
#include <iterator>

#include "agent/unwind/frame_chain.h"
#include "agent/unwind/unwinder.h"

namespace stepagent::unwind {
namespace {

// Frames of ours between the application's call and Unwinder::Walk: this file, the API call
// handler, the callback's shim. They are left out, so they are walked beyond the depth.
constexpr uint32_t kOwnFrames = 8;

constinit StackTable g_table;
constinit std::atomic<uint64_t> g_not_taken{0};
// Where our own code lies.
constinit std::atomic<uintptr_t> g_own_begin{0}, g_own_end{0};

// The thread is inside Take. Where a handler that interrupted Take leaves by longjmp it stays so,
// and the thread's later stacks are not taken: better than to enter libunwind's table half changed.
constinit thread_local bool t_is_walking = false;

int FindOwn(dl_phdr_info* info, size_t, void*) {
  const auto here = reinterpret_cast<uintptr_t>(&FindOwn);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
    if (segment.p_type != PT_LOAD || here < begin || here >= end) continue;
    g_own_begin.store(begin, std::memory_order_relaxed);
    g_own_end.store(end, std::memory_order_relaxed);
    return 1;
  }
  return 0;
}

uint32_t NotTaken() noexcept {
  g_not_taken.fetch_add(1, std::memory_order_relaxed);
  return StackTable::kNotTaken;
}

// `frame`: Take's own.
uint32_t WalkAndIntern(uintptr_t frame) noexcept {
  uintptr_t frames[StackTable::kMaxFrames + kOwnFrames + 1];
  uint32_t count = 0;
  const FrameChain::Result result = FrameChain::Walk(frame, frames, std::size(frames), &count);
  if (result == FrameChain::Result::kUnknown) FrameChain::Learn();
  if (result != FrameChain::Result::kWhole) count = Unwinder::Walk(frames, std::size(frames));
  const uintptr_t begin = g_own_begin.load(std::memory_order_relaxed);
  const uintptr_t end = g_own_end.load(std::memory_order_relaxed);
  uint32_t first = 0;
  while (first < count && frames[first] >= begin && frames[first] < end) ++first;
  if (first == count) return NotTaken();
  const bool truncated = count == std::size(frames) || count - first > StackTable::kMaxFrames;
  uint32_t kept = count - first;
  if (kept > StackTable::kMaxFrames) kept = StackTable::kMaxFrames;
  return g_table.Intern(frames + first, kept, truncated);
}

}  // namespace

std::string StackCapture::Prepare() {
  std::string why = Unwinder::Load();
  if (!why.empty()) return why;
  if (!g_table.Map()) return "no memory for the table of stacks";
  if (g_own_end.load(std::memory_order_relaxed) == 0) dl_iterate_phdr(FindOwn, nullptr);
  return "";
}

uint32_t StackCapture::Take() noexcept {
  if (t_is_walking) return NotTaken();
  t_is_walking = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler sees the flag first
  const uint32_t id = WalkAndIntern(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_is_walking = false;
  return id;
}

StackTable& StackCapture::table() noexcept { return g_table; }
uint64_t StackCapture::not_taken() noexcept { return g_not_taken.load(std::memory_order_relaxed); }

}  // namespace stepagent::unwind
