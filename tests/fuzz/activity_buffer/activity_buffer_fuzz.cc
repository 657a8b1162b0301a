// Activity buffers with hostile contents through the decoder and the discard counter.
//
// The first byte chooses the CUPTI version, the second how long the valid part is said to be; the
// rest is the buffer. Name pointers are replaced by good ones or NULL where a record's name would
// be: a wild pointer cannot be told from a good one, and the library is trusted not to write such.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "agent/cupti/buffer_pool.h"
#include "agent/cupti/decoder.h"
#include "tests/unit/agent_cupti/fake_iterator.h"
#include "tests/unit/agent_cupti/recording_sink.h"

namespace stepagent::cupti {
namespace {

constexpr const char* kNames[] = {nullptr, "", "kernel", "\xFF\xFE\x80", "_Z4gemmILi4EEvPf"};
constexpr uint32_t kKernelName = 104, kDeviceName = 136;
constexpr uint64_t kNow = 1'700'000'000'000'000'000;

void Check(bool holds) {
  if (!holds) std::abort();
}

// Kinds get a chance: a byte that selects one stands at each place where a record would begin.
void MakeKindsLikely(uint8_t* data, size_t bytes) {
  for (size_t at = 0; at + sizeof(uint32_t) <= bytes;) {
    uint32_t kind;
    std::memcpy(&kind, data + at, sizeof(kind));
    if (kind >= kKindLimit && kind % 16 != 0) kind %= kKindLimit;
    std::memcpy(data + at, &kind, sizeof(kind));
    const uint32_t size = FakeIterator::size(kind);
    if (size == 0) return;
    const bool is_kernel = kind == kKindKernel || kind == kKindConcurrentKernel;
    if (is_kernel || kind == kKindDevice) {
      const size_t field = at + (is_kernel ? kKernelName : kDeviceName);
      if (field + sizeof(char*) > bytes) return;
      uint8_t choice = data[field];
      const char* name = kNames[choice % std::size(kNames)];
      std::memcpy(data + field, &name, sizeof(name));
    }
    at += size;
  }
}

// Whatever came, each record of a kind of others' is counted under its kind.
void CheckCounts(const DecodeCounts& counts) {
  uint64_t others = 0;
  for (const uint64_t count : counts.other_by_kind) others += count;
  Check(others == counts.other_kinds);
}

// What every decoded record must satisfy.
void CheckRecords(const RecordingSink& sink) {
  for (const core::KernelActivity& kernel : sink.kernels) {
    const bool is_placed = (kernel.flags & (core::kDeviceNoTiming | core::kDeviceUnfinished |
                                            core::kDeviceReversed)) == 0;
    Check(!is_placed || (kernel.start_ns != 0 && kernel.end_ns >= kernel.start_ns));
    Check((kernel.flags & core::kDeviceNullName) == 0 || kernel.name == 0);
  }
  for (const core::SyncActivity& sync : sink.syncs)
    Check(sync.flags != 0 || sync.end_ns >= sync.start_ns);
  for (const core::OverheadActivity& overhead : sink.overheads) {
    Check(overhead.end_ns >= overhead.start_ns);
  }
}

}  // namespace
}  // namespace stepagent::cupti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t input_bytes) {
  using namespace stepagent::cupti;  // NOLINT: the one function outside the namespace
  static const bool has_names = stepagent::core::NameTable::Init();
  if (!has_names || input_bytes < 3) return 0;
  FakeIterator::Set(kFakeVersions[input[0] % std::size(kFakeVersions)]);
  const ApiTable api = FakeIterator::Table();
  Layouts layouts;
  layouts.Calibrate(api);

  const size_t bytes = input_bytes - 2;
  std::vector<uint64_t> words((bytes + 7) / 8);
  auto* data = reinterpret_cast<uint8_t*>(words.data());
  std::memcpy(data, input + 2, bytes);
  MakeKindsLikely(data, bytes);
  const size_t valid = bytes - bytes * input[1] / 512;

  static auto* decoder = new Decoder();
  decoder->Use(&api, &layouts, nullptr);
  decoder->SetNow(input[0] % 2 == 0 ? 0 : kNow);
  RecordingSink sink;
  const DecodeCounts before = decoder->counts();
  const uint64_t decoded = decoder->DecodeBuffer(data, valid, &sink);
  CheckRecords(sink);
  Check(decoder->counts().invalid - before.invalid == sink.invalid.size());
  CheckCounts(decoder->counts());
  Check(decoded <= valid / sizeof(uint32_t));

  static auto* pool = [] {
    auto* made = new BufferPool();
    Check(made->Map(/*cap_bytes=*/0));
    return made;
  }();
  pool->Begin(&layouts);
  uint8_t* buffer = nullptr;
  size_t room = 0;
  pool->Request(&buffer, &room);
  std::memcpy(buffer, data, std::min(room, bytes));
  pool->Complete(buffer, valid);
  Check(pool->counts().outstanding == 0);
  pool->Begin(nullptr);
  return 0;
}
