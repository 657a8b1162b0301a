// Scripted odd records: what the field has seen and a reader must survive.
//
// STEPAGENT_SIM_ODD="what@n;what/n;...": the n-th device record, or every n-th. What: zero
// (start = end = 0), zero_start, zero_end, reversed (end before start), future (a stamp days
// ahead), null_name, empty_name, long_name, bad_utf8, no_device (device -1), drop (counted as
// dropped), extra (a record of a kind nobody asked for goes before it), duplicate (written twice).
// Threads: any. Failure: an unknown word ends the program.
#pragma once

#include <cstdint>

#include "cupti/buffers.h"

namespace stepagent::sim {

struct Oddity {
  bool drops = false;
  bool has_extra = false;
  bool is_duplicated = false;
};

// Where the fields of one kind are.
struct DeviceLayout {
  uint32_t start = 0;
  uint32_t end = 0;
  uint32_t device = 0;
  uint32_t name = 0;  // 0: the kind has none
};

[[nodiscard]] bool HasOddities();
Oddity ApplyOddities(EncodedRecord* record, const DeviceLayout& layout);
void DropOneRecord();

}  // namespace stepagent::sim
