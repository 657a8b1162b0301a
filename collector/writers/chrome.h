#pragma once
// Chrome JSON in Kineto's shape: the trace that HTA, TensorBoard, TraceLens and Perfetto open.
//
// Purpose: one file per cycle, `<stem>.pt.trace.json.gz` (`<stem>.hostonly.pt.trace.json.gz` where
// no device data exists); past --max-trace-bytes of text several, cut where steps begin, each in a
// folder of its own (trace_parts.h).
// Thread rule: as Writer. Streaming: one row at a time; besides the cycle it holds the open
// intervals of each row, the projected annotations and one prepared text per name and shape.
// Failure rule: as Writer.
#include "collector/writers/writer.h"

namespace stepagent::writers {

class ChromeWriter final : public Writer {
 public:
  [[nodiscard]] std::string_view format() const override { return "chrome"; }
  [[nodiscard]] WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) override;
};

// The base of every `ts`: as Kineto's, a multiple of about three months, so that files of all ranks
// and PyTorch's own share it, and a double still holds every nanosecond above it.
inline constexpr int64_t kChromeBaseUnitNs = int64_t{7'889'238} * 1'000'000'000;
[[nodiscard]] int64_t ChromeBaseUnixNs(const model::Cycle& cycle);

}  // namespace stepagent::writers
