#include "agent/cupti/layouts.h"

#include <vector>

namespace stepagent::cupti {
namespace {

// Longer than two records of any kind met so far, shorter than a page twice over.
constexpr size_t kProbeBytes = 4096;
// What counts as another client's records in a buffer of ours: known, never decoded.
constexpr uint32_t kUndecodedKinds[] = {kKindDriver,         kKindRuntime,
                                        kKindCudaEvent,      kKindExternalCorrelation,
                                        kKindInternalLaunch, kKindMemoryPool};

}  // namespace

uint32_t Layouts::Measure(const ApiTable& api, uint32_t kind) {
  // With the kind in every 4-byte slot the second record is one of the same kind wherever it
  // begins, so the distance between the first two is the length.
  std::vector<uint64_t> buffer(kProbeBytes / sizeof(uint64_t), (uint64_t{kind} << 32) | kind);
  auto* bytes = reinterpret_cast<uint8_t*>(buffer.data());
  CUpti_Activity* record = nullptr;
  if (api.ActivityGetNextRecord(bytes, kProbeBytes, &record) != CUPTI_SUCCESS) return 0;
  const auto* first = reinterpret_cast<const uint8_t*>(record);
  if (first != bytes) return 0;
  if (api.ActivityGetNextRecord(bytes, kProbeBytes, &record) != CUPTI_SUCCESS) return 0;
  const auto* second = reinterpret_cast<const uint8_t*>(record);
  if (second <= first || second >= bytes + kProbeBytes) return 0;
  return static_cast<uint32_t>(second - first);
}

void Layouts::Take(const ApiTable& api, const KindSpec& spec) {
  const uint32_t bytes = Measure(api, spec.kind);
  bytes_[spec.kind] = static_cast<uint16_t>(bytes);
  decodable_[spec.kind] = bytes >= spec.minimum_bytes;
  if (bytes > spec.newest_bytes) is_newer_ = true;
}

void Layouts::Calibrate(const ApiTable& api) {
  *this = Layouts();
  for (const KindSpec& spec : kKinds) Take(api, spec);
  Take(api, kSerialKernel);
  for (uint32_t kind : kUndecodedKinds) bytes_[kind] = static_cast<uint16_t>(Measure(api, kind));
}

}  // namespace stepagent::cupti
