// Counters of the simulator, named, monotone, shared by the simulated libraries of one process.
//
// With STEPAGENT_SIM_STATS=<file> they live in the shared mapping <file>.counters, so that they
// survive _exit and signals; the text <file> is written at exit. Without it they live in memory.
// Each counter has a cache line of its own. Threads: any. Failure: a full table or an unusable
// file ends the program with a message.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace stepagent::sim {

constexpr uint64_t kCounterMagic = 0x31525443'4d495353;  // "SSIMCTR1"
constexpr int kCounterCapacity = 511;
constexpr int kCounterNameBytes = 48;

struct CounterSlot {
  std::atomic<uint64_t> value;
  std::atomic<uint32_t> state;  // 0 free, 1 being named, 2 named
  uint32_t reserved;
  char name[kCounterNameBytes];
};
static_assert(sizeof(CounterSlot) == 64);

struct CounterTable {
  uint64_t magic;
  uint64_t owner_pid;
  uint64_t owner_start_ticks;  // tells a reused process id apart
  uint64_t reserved[5];
  CounterSlot slots[kCounterCapacity];
};

// The slot of that name, made on the first call.
[[nodiscard]] std::atomic<uint64_t>& Counter(const char* name);

[[nodiscard]] uint64_t CounterValue(const char* name);

inline void Add(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

// Writes "name value" lines; 0 or an errno value.
[[nodiscard]] int WriteCounters(const std::string& path);
[[nodiscard]] int WriteCounters(const CounterTable& table, const std::string& path);

// Registers the writer of the text file for the process's exit; once per library.
void WriteCountersAtExit();

}  // namespace stepagent::sim
