#pragma once
// Perfetto's protobuf: trace.pftrace.
//
// Purpose: device work as GPU render stage events, what the host did as track events, joined by the
// call that made the work. Encoded by hand, interned, streamed packet by packet.
// Past --max-trace-bytes, or more device rows than a viewer holds, it is cut where steps begin:
// trace.part1.pftrace and so on (trace_parts.h).
// Thread rule and failure rule: those of Writer. Memory: one packet buffer, prepared bytes per
// name, shape and stream, and four bytes for each piece of device work.
#include "collector/writers/writer.h"

namespace stepagent::writers {

class PerfettoWriter final : public Writer {
 public:
  [[nodiscard]] std::string_view format() const override { return "perfetto"; }
  [[nodiscard]] WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) override;
};

}  // namespace stepagent::writers
