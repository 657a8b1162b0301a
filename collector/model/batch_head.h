#pragma once
// The head of a batch: everything but its records, which may wait.
//
// Purpose: while a cycle is being recorded nobody looks at its records, and decoded they take six
// times the memory of the bytes that came. What steers the collector (identity, steps, events,
// losses, devices) is a few hundred bytes of a batch of 256 KiB.
// Thread rule: pure.
// Failure rule: what libprotobuf could not read as a Batch is refused, down to the sections'
// columns, so that nothing damaged waits; so are groups, which no writer of this schema makes.
// Whether columns agree with a section's count is seen when it is decoded.
#include <cstdint>
#include <string_view>

#include "batch.pb.h"

namespace stepagent::model {

struct BatchHead {
  v1::Batch fields;  // without the sections of records
  // Entries that its sections claim, none more than the section has bytes.
  uint64_t records = 0, calls = 0, kernels = 0, range_ops = 0;
  bool has_work = false;      // calls or device work among them
  bool has_sections = false;  // any at all
};
[[nodiscard]] bool ReadBatchHead(std::string_view payload, BatchHead* head);

}  // namespace stepagent::model
