#pragma once
// A pprof profile of device work by launch: trace.pb.gz.
//
// Purpose: `go tool pprof`, Pyroscope and speedscope open it. Leaf is the kernel, then the call,
// then the launch's stack or the ranges; stream, device, rank and step are labels.
// Thread rule and failure rule: those of Writer. Memory: one entry per distinct path.
#include "collector/writers/writer.h"

namespace stepagent::writers {

class PprofWriter final : public Writer {
 public:
  [[nodiscard]] std::string_view format() const override { return "pprof"; }
  [[nodiscard]] WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) override;
};

}  // namespace stepagent::writers
