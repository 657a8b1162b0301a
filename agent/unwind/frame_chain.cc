// Walk is on HOT PATH A: no lock, allocation, system call or log; bounded loops.
#include "agent/unwind/frame_chain.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
// The names of the library's own process, not of a remote one.
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <link.h>

#include <algorithm>
#include <iterator>

// Of the loader: where the first thread's stack begins.
extern "C" void* __libc_stack_end;  // NOLINT(bugprone-reserved-identifier)

namespace stepagent::unwind {
namespace {

// Addresses of which something is known: 32,768 at most, 256 KiB, touched as used. PyTorch launches
// from some thousands.
constexpr uint32_t kSlots = 1U << 15;
constexpr uint32_t kProbes = 16;
// Larger frames are walked by libunwind.
constexpr uintptr_t kLongestFrame = 1U << 20;
// A program whose walks meet new addresses all the time stops being looked at.
constexpr uint32_t kMostLooks = 10'000;
constexpr uint32_t kDeepest = 512;

// An entry is the address, shifted, and what is known of it.
enum Known : uint64_t { kNothing = 0, kKept = 1, kNotKept = 2, kOutermost = 3 };
constexpr uint64_t kKnownMask = 3;

constinit std::atomic<std::atomic<uint64_t>*> g_slots{nullptr};
constinit std::atomic<uint32_t> g_looks{0};
constinit uintptr_t g_libc_begin = 0, g_libc_end = 0;

// What lies beyond an outermost address: main's caller has two frames more.
constexpr uint32_t kTailFrames = 2;
struct Tail {
  std::atomic<uintptr_t> address{0};
  std::atomic<bool> is_whole{false};
  uint32_t count = 0;
  uintptr_t frames[kTailFrames] = {};
};
constinit Tail g_tails[8];

bool IsInLibc(uintptr_t address) noexcept {
  return address >= g_libc_begin && address < g_libc_end;
}

// Appends what lies beyond `address`; false where that is not known yet.
bool AppendTail(uintptr_t address, uintptr_t* frames, uint32_t most, uint32_t* count) noexcept {
  for (const Tail& tail : g_tails) {
    if (tail.address.load(std::memory_order_relaxed) != address) continue;
    if (!tail.is_whole.load(std::memory_order_acquire)) return false;  // pairs with RememberEnd
    for (uint32_t i = 0; i < tail.count && *count < most; ++i) frames[(*count)++] = tail.frames[i];
    return true;
  }
  return false;
}

#if defined(__x86_64__)
#define STEPAGENT_TEXT_OF(name) #name
#define STEPAGENT_NAME_OF(macro) STEPAGENT_TEXT_OF(macro)

struct Steps {
  decltype(&::unw_tdep_getcontext) get_context = nullptr;
  decltype(&::unw_init_local) init_local = nullptr;
  decltype(&::unw_step) step = nullptr;
  decltype(&::unw_get_reg) get_register = nullptr;
  decltype(&::unw_get_proc_info) get_function = nullptr;
};
constinit Steps g_steps;

template <typename F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}
#endif

uint32_t SlotOf(uintptr_t address) noexcept {
  return static_cast<uint32_t>((address * 0x9e3779b97f4a7c15) >> 40) & (kSlots - 1);
}

Known Lookup(const std::atomic<uint64_t>* slots, uintptr_t address) noexcept {
  for (uint32_t probe = 0, at = SlotOf(address); probe < kProbes; ++probe) {
    const uint64_t entry = slots[(at + probe) & (kSlots - 1)].load(std::memory_order_relaxed);
    if (entry >> 2 == address) return static_cast<Known>(entry & kKnownMask);
    if (entry == 0) return kNothing;
  }
  return kNotKept;  // no room to know it
}

#if defined(__x86_64__)
void Remember(std::atomic<uint64_t>* slots, uintptr_t address, Known known) noexcept {
  for (uint32_t probe = 0, at = SlotOf(address); probe < kProbes; ++probe) {
    std::atomic<uint64_t>& slot = slots[(at + probe) & (kSlots - 1)];
    uint64_t entry = slot.load(std::memory_order_relaxed);
    if (entry >> 2 == address && entry != 0) {
      // Two looks at one place that disagree: it is not to be relied on.
      if ((entry & kKnownMask) != known) slot.store(address << 2 | kNotKept);
      return;
    }
    if (entry == 0 && slot.compare_exchange_strong(entry, address << 2 | known)) return;
    if (entry >> 2 == address) return;  // another thread was quicker
  }
}

// Keeps what lies beyond `address`. False when something else did before, or there is no room.
bool KeepTail(uintptr_t address, const uintptr_t* frames, uint32_t count) noexcept {
  for (Tail& tail : g_tails) {
    uintptr_t nobody = 0;
    if (tail.address.compare_exchange_strong(nobody, address)) {
      std::copy_n(frames, count, tail.frames);
      tail.count = count;
      tail.is_whole.store(true, std::memory_order_release);  // pairs with AppendTail
      return true;
    }
    if (nobody != address) continue;
    if (!tail.is_whole.load(std::memory_order_acquire)) return true;  // another thread is at it
    return tail.count == count && std::equal(frames, frames + count, tail.frames);
  }
  return false;
}

int FindLibc(dl_phdr_info* info, size_t, void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    begin = std::min(begin, info->dlpi_addr + segment.p_vaddr);
    end = std::max(end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (wanted < begin || wanted >= end) return 0;
  g_libc_begin = begin;
  g_libc_end = end;
  return 1;
}

struct Seen {
  uintptr_t address = 0, frame_pointer = 0, stack_pointer = 0;
  bool has_unwind_information = false;
};

bool Look(unw_cursor_t* cursor, Seen* seen) noexcept {
  unw_word_t address = 0, frame_pointer = 0, stack_pointer = 0;
  if (g_steps.get_register(cursor, UNW_REG_IP, &address) != 0 ||
      g_steps.get_register(cursor, UNW_X86_64_RBP, &frame_pointer) != 0 ||
      g_steps.get_register(cursor, UNW_REG_SP, &stack_pointer) != 0) {
    return false;
  }
  // Without unwind information it says "this one address" and steps by a guess.
  unw_proc_info_t function{};
  const bool is_known =
      g_steps.get_function(cursor, &function) == 0 && function.end_ip - function.start_ip > 1;
  *seen = {address, frame_pointer, stack_pointer, is_known};
  return true;
}

// Where the function of `frame` keeps its frame pointer in the usual way at this place: the call
// frame ends two words above it, and the lower of the two is the caller's.
bool KeepsFramePointer(const Seen& frame, const Seen& caller) noexcept {
  const uintptr_t end = frame.frame_pointer + 2 * sizeof(uintptr_t);
  return frame.has_unwind_information && frame.frame_pointer % 16 == 0 &&
         caller.stack_pointer == end &&
         *reinterpret_cast<const uintptr_t*>(frame.frame_pointer) == caller.frame_pointer;
}

// The last frames of a walk, until it is known which of them is the outermost of interest.
struct Latest {
  uintptr_t addresses[kTailFrames + 1] = {};
  Known known[kTailFrames + 1] = {};
  uint32_t count = 0;

  void RememberFirst(std::atomic<uint64_t>* slots) noexcept {
    Remember(slots, addresses[0], known[0]);
    --count;
    std::copy_n(addresses + 1, count, addresses);
    std::copy_n(known + 1, count, known);
  }
};

// libc starts threads, programs and coroutines from one place each: what is beyond that place is
// the same each time. It need not keep frame pointers and mostly does not.
void RememberEnd(std::atomic<uint64_t>* slots, Latest* latest) noexcept {
  while (latest->count != 0 && !IsInLibc(latest->addresses[0])) latest->RememberFirst(slots);
  if (latest->count == 0) return;
  const uintptr_t outermost = latest->addresses[0];
  const bool is_kept = KeepTail(outermost, latest->addresses + 1, latest->count - 1);
  Remember(slots, outermost, is_kept ? kOutermost : kNotKept);
}
#endif

}  // namespace

#if defined(__x86_64__)

bool FrameChain::Init(void* library) noexcept {
  if (g_slots.load(std::memory_order_relaxed) != nullptr) return true;
  if (!Find(library, STEPAGENT_NAME_OF(unw_tdep_getcontext), &g_steps.get_context) ||
      !Find(library, STEPAGENT_NAME_OF(unw_init_local), &g_steps.init_local) ||
      !Find(library, STEPAGENT_NAME_OF(unw_step), &g_steps.step) ||
      !Find(library, STEPAGENT_NAME_OF(unw_get_reg), &g_steps.get_register) ||
      !Find(library, STEPAGENT_NAME_OF(unw_get_proc_info), &g_steps.get_function)) {
    return false;
  }
  void* memory = mmap(nullptr, kSlots * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  // A function of libc that nobody replaces.
  dl_iterate_phdr(FindLibc, dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  // release pairs with Walk and Learn: the functions above are set.
  g_slots.store(static_cast<std::atomic<uint64_t>*>(memory), std::memory_order_release);
  return true;
}

FrameChain::Result FrameChain::Walk(uintptr_t frame, uintptr_t* frames, uint32_t most,
                                    uint32_t* count) noexcept {
  const std::atomic<uint64_t>* slots = g_slots.load(std::memory_order_acquire);
  if (slots == nullptr) return Result::kNotKept;
  // glibc puts a thread's own block at the top of its stack; the first thread's is below it.
  const auto thread = static_cast<uintptr_t>(pthread_self());
  const auto first = reinterpret_cast<uintptr_t>(__libc_stack_end);
  const uintptr_t top = frame < thread ? thread : first;
  uint32_t n = 0;
  while (n < most) {
    const auto* words = reinterpret_cast<const uintptr_t*>(frame);
    const uintptr_t next = words[0], address = words[1];
    frames[n++] = address;
    const Known known = Lookup(slots, address);
    if (known == kOutermost) {
      if (!AppendTail(address, frames, most, &n)) return Result::kNotKept;
      break;
    }
    if (known != kKept) return known == kNothing ? Result::kUnknown : Result::kNotKept;
    if (next <= frame || next - frame > kLongestFrame || next % 16 != 0 ||
        next + 2 * sizeof(uintptr_t) > top) {
      return Result::kNotKept;
    }
    frame = next;
  }
  *count = n;
  return Result::kWhole;
}

// Not inlined: its own frame is one that is looked at.
[[gnu::noinline]] void FrameChain::Learn() noexcept {
  std::atomic<uint64_t>* slots = g_slots.load(std::memory_order_acquire);
  if (slots == nullptr || g_looks.fetch_add(1, std::memory_order_relaxed) >= kMostLooks) return;
  unw_context_t context;
  unw_cursor_t cursor;
  if (g_steps.get_context(&context) != 0 || g_steps.init_local(&cursor, &context) != 0) return;
  Seen frame, caller;
  Latest latest;
  if (!Look(&cursor, &frame)) return;
  for (uint32_t depth = 0; depth < kDeepest; ++depth) {
    const int stepped = g_steps.step(&cursor);
    const bool is_good = stepped == 0 || (stepped > 0 && Look(&cursor, &caller));
    // The first frame is this function's: its address is no return address.
    if (depth > 0) {
      if (latest.count == std::size(latest.addresses)) latest.RememberFirst(slots);
      const bool keeps = stepped > 0 && is_good && KeepsFramePointer(frame, caller);
      latest.addresses[latest.count] = frame.address;
      latest.known[latest.count++] = keeps ? kKept : kNotKept;
    }
    if (stepped == 0) return RememberEnd(slots, &latest);
    if (!is_good) break;
    frame = caller;
  }
  while (latest.count != 0) latest.RememberFirst(slots);
}

void FrameChain::Forget() noexcept {
  std::atomic<uint64_t>* slots = g_slots.load(std::memory_order_acquire);
  if (slots == nullptr) return;
  for (uint32_t i = 0; i < kSlots; ++i) slots[i].store(0, std::memory_order_relaxed);
}

#else

bool FrameChain::Init(void*) noexcept { return false; }
FrameChain::Result FrameChain::Walk(uintptr_t, uintptr_t*, uint32_t, uint32_t*) noexcept {
  return Result::kNotKept;
}
void FrameChain::Learn() noexcept {}
void FrameChain::Forget() noexcept {}

#endif

}  // namespace stepagent::unwind
