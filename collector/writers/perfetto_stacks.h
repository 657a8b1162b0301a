#pragma once
// The stacks of launches in a Perfetto trace: interned files, functions, frames and call stacks.
//
// Purpose: a launch's event holds one number; what it stands for is written once, with the packet
// that first needs it. Thread rule: one object, one thread. Memory: one entry per distinct frame.
// Failure rule: errors stay in the OutputFile.
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/perfetto_packets.h"

namespace stepagent::writers {

class PerfettoStacks {
 public:
  PerfettoStacks(const model::Cycle& cycle, PerfettoPackets& packets);
  // 0: no stack was taken. Between the packets' Begin and End.
  [[nodiscard]] uint64_t Iid(const model::Call& call);

 private:
  [[nodiscard]] uint64_t FrameIid(const model::Frame& frame);
  [[nodiscard]] uint64_t MappingIid(const model::Frame& frame);
  [[nodiscard]] uint64_t BuildIdIid(const std::string& hex);

  using FrameKey = std::tuple<model::StringId, model::StringId, uint64_t, model::StringId, uint32_t,
                              std::string>;
  const model::Cycle& cycle_;
  PerfettoPackets& packets_;
  std::vector<uint64_t> iids_;  // by stack; 0 not yet
  uint64_t stacks_ = 0;
  std::map<FrameKey, uint64_t> frames_;
  std::map<std::pair<model::StringId, std::string>, uint64_t> mappings_;
  std::map<std::string, uint64_t> build_ids_;
};

}  // namespace stepagent::writers
