#pragma once
// The device half of a Perfetto trace: one render stage event for each piece of device work.
//
// Purpose: what Perfetto's GPU tabs read. Stream, context and launch are prepared bytes per stream
// and per launch shape; an event adds its stamps and its correlation.
// Thread rule: one object, one thread. Memory: the prepared bytes.
// Failure rule: errors stay in the OutputFile.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/perfetto_packets.h"

namespace stepagent::writers {

class PerfettoDevice {
 public:
  PerfettoDevice(const model::Cycle& cycle, PerfettoPackets& packets);
  void Write(const std::function<void(uint64_t)>& progress);

 private:
  enum Stage : uint8_t { kNone, kKernelStage, kCopyStage, kSetStage, kGraphStage, kStageCount };
  struct LaneBytes {
    std::string event;  // gpu, context, queue
    std::string args;   // device, stream
    bool is_declared = false;
  };
  struct ShapeBytes {
    int32_t device = -1;
    std::string event;   // name and kernel
    std::string launch;  // grid, block, figures
  };
  LaneBytes& LaneOf(uint32_t lane);
  ShapeBytes& ShapeOf(const model::Kernel& kernel);
  void DeclareLane(uint32_t lane, LaneBytes& bytes);
  void DeclareStage(Stage stage);
  uint64_t DeclareKernel(const model::Shape& shape, const model::DeviceInfo* device);
  void PrepareShape(const model::Shape& shape, int32_t device, ShapeBytes& bytes);
  void Specification(uint64_t iid, std::string_view name, uint32_t category);
  void Arg(ProtoBuffer& to, const char* name, uint64_t value);
  void Event(const model::DeviceItem& item, Stage stage, const LaneBytes& lane,
             std::string_view name, std::string_view launch);
  void NameArg(std::string_view name);
  void Kernel(const model::Kernel& kernel);
  void Copy(const model::Copy& copy);
  void Set(const model::Set& set);
  void Graph(const model::GraphLaunch& launch);
  [[nodiscard]] const model::DeviceInfo* Device(int32_t ordinal) const;

  const model::Cycle& cycle_;
  PerfettoPackets& packets_;
  ProtoBuffer scratch_, name_, args_;
  std::vector<LaneBytes> lanes_;
  std::vector<ShapeBytes> shapes_;
  std::map<std::pair<int32_t, uint32_t>, uint64_t> contexts_;  // device, context -> iid
  std::map<std::pair<std::string, std::string>, uint64_t> kernels_;
  bool is_stage_declared_[kStageCount] = {};
  uint64_t event_id_ = 0;
};

}  // namespace stepagent::writers
