// sim_stats FILE.counters: prints the counters of a process that wrote none at its end (it was
// killed, or left by _exit), as "name value" lines.
#include <cstdio>
#include <fstream>
#include <memory>

#include "common/counters.h"

int main(int argc, char** argv) {
  using stepagent::sim::CounterTable;
  if (argc != 2) {
    fprintf(stderr, "usage: sim_stats FILE.counters\n");
    return 2;
  }
  auto table = std::make_unique<CounterTable>();
  std::ifstream in(argv[1], std::ios::binary);
  in.read(reinterpret_cast<char*>(table.get()), sizeof(CounterTable));
  if (!in || table->magic != stepagent::sim::kCounterMagic) {
    fprintf(stderr, "sim_stats: %s is not a counters file\n", argv[1]);
    return 3;
  }
  for (const auto& slot : table->slots) {
    if (slot.state.load() != 2) continue;
    printf("%s %llu\n", slot.name, static_cast<unsigned long long>(slot.value.load()));
  }
  return 0;
}
