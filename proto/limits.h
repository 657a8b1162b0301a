#pragma once
// Limits both sides keep.
//
// Purpose: no length from the other side is used before it was compared with one of these.
// Thread rule: constants.
// Failure rule: a frame over kMaxFrameBytes is refused and its connection closed; other
// connections go on. Doubling any of them costs memory per connection only.
#include <cstddef>
#include <cstdint>

namespace stepagent::proto {

// A batch is closed at about kBatchTargetBytes; one may exceed it by a name table, never 64 times.
inline constexpr size_t kBatchTargetBytes = 256 * 1024;
inline constexpr size_t kMaxFrameBytes = 16 * 1024 * 1024;
inline constexpr size_t kMaxControlBytes = 256 * 1024;
inline constexpr size_t kMaxNameBytes = 4096;             // design: names are cut here, with a hash
inline constexpr size_t kMaxRecordsPerBatch = 1 << 20;
inline constexpr size_t kMaxStringsPerSession = 1 << 20;  // further ids become "name table full"
inline constexpr uint32_t kNoName = 0;
inline constexpr uint32_t kOverflowName = 1;

}  // namespace stepagent::proto
