#include "common/counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/faults.h"
#include "common/settings.h"

namespace stepagent::sim {
namespace {

// Field 22 of /proc/self/stat: with the pid it names a process for good.
uint64_t OwnStartTicks() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) rest >> field;
  return strtoull(field.c_str(), nullptr, 10);
}

CounterTable* MapFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(CounterTable)) != 0) {
    Violation("counters file %s: %s", path.c_str(), strerror(errno));
  }
  void* memory = mmap(nullptr, sizeof(CounterTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) Violation("counters file %s: %s", path.c_str(), strerror(errno));
  auto* table = static_cast<CounterTable*>(memory);
  const uint64_t start = OwnStartTicks();
  const bool is_ours = table->magic == kCounterMagic &&
                       table->owner_pid == static_cast<uint64_t>(getpid()) &&
                       table->owner_start_ticks == start;
  if (!is_ours) {
    memset(memory, 0, sizeof(CounterTable));
    table->owner_pid = static_cast<uint64_t>(getpid());
    table->owner_start_ticks = start;
    table->magic = kCounterMagic;
  }
  return table;
}

CounterTable* MakeTable() {
  const std::string stats = SettingText("STATS");
  if (!stats.empty()) return MapFile(ExpandPath(stats) + ".counters");
  void* memory = mmap(nullptr, sizeof(CounterTable), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Violation("no memory for counters");
  return static_cast<CounterTable*>(memory);
}

CounterTable& Table() {
  static CounterTable* table = MakeTable();
  return *table;
}

CounterSlot* FindSlot(CounterTable& table, const char* name, bool make) {
  for (CounterSlot& slot : table.slots) {
    uint32_t state = slot.state.load(std::memory_order_acquire);
    if (state == 0) {
      if (!make) return nullptr;
      if (slot.state.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) {
        strncpy(slot.name, name, kCounterNameBytes - 1);
        // Pairs with the acquire above: whoever sees 2 sees the name.
        slot.state.store(2, std::memory_order_release);
        return &slot;
      }
    }
    while (slot.state.load(std::memory_order_acquire) == 1) {
    }
    if (strncmp(slot.name, name, kCounterNameBytes - 1) == 0) return &slot;
  }
  if (make) Violation("counter table is full at '%s'", name);
  return nullptr;
}

// The call log ends with what CUDA did: one line for each counter of calls.
void LogCounters() {
  if (!HasCallLog()) return;
  for (const CounterSlot& slot : Table().slots) {
    if (slot.state.load(std::memory_order_acquire) != 2) continue;
    if (strncmp(slot.name, "cuda.", 5) != 0) continue;
    char text[96];
    snprintf(text, sizeof(text), "total %s %llu", slot.name,
             static_cast<unsigned long long>(slot.value.load(std::memory_order_relaxed)));
    LogText(text);
  }
}

void WriteAtExit() {
  const std::string stats = SettingText("STATS");
  LogCounters();
  if (!stats.empty() && WriteCounters(ExpandPath(stats)) != 0) {
    fprintf(stderr, "stepagent-sim: %s cannot be written\n", stats.c_str());
  }
}

}  // namespace

std::atomic<uint64_t>& Counter(const char* name) { return FindSlot(Table(), name, true)->value; }

uint64_t CounterValue(const char* name) {
  const CounterSlot* slot = FindSlot(Table(), name, false);
  return slot == nullptr ? 0 : slot->value.load(std::memory_order_relaxed);
}

int WriteCounters(const std::string& path) { return WriteCounters(Table(), path); }

int WriteCounters(const CounterTable& table, const std::string& path) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::trunc);
  for (const CounterSlot& slot : table.slots) {
    if (slot.state.load(std::memory_order_acquire) != 2) continue;
    out << slot.name << ' ' << slot.value.load(std::memory_order_relaxed) << '\n';
  }
  out.close();
  if (!out) return EIO;
  return rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
}

void WriteCountersAtExit() {
  static const bool registered = [] { return atexit(WriteAtExit) == 0; }();
  (void)registered;
}

}  // namespace stepagent::sim
