#pragma once
// DeviceRows: devices, contexts and streams of the session.
//
// Purpose: the few rows that describe where work ran. They come once from CUPTI, but any batch may
// be lost, so all of them go into each batch.
// Thread rule: belongs to one builder.
// Failure rule: bounded; beyond the caps a row goes into the batch at hand only.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/activity.h"
#include "agent/drain/columns.h"

namespace stepagent::drain {

class DeviceRows {
 public:
  void Add(const core::DeviceActivity& device);
  void Add(const core::ContextActivity& context);
  void Add(const core::StreamActivity& stream);

  // Ordinals of the devices that have a context, rising, each once.
  [[nodiscard]] std::vector<uint32_t> DevicesInUse() const;

  [[nodiscard]] size_t bytes() const {
    return devices_.size() * 128 + contexts_.size() * 10 + streams_.size() * 14;
  }
  void Write(BatchWriter* batch) const;
  // Drops what was only for the batch at hand.
  void Clear();

 private:
  struct Device {
    core::DeviceActivity row;
    std::string name;
  };
  // Why these: 64 devices is more than one host has; programs that make streams by the thousand
  // (one a request) must not grow each batch.
  static constexpr size_t kMaxDevices = 64;
  static constexpr size_t kMaxContexts = 256;
  static constexpr size_t kMaxStreams = 512;

  std::vector<Device> devices_;
  std::vector<core::ContextActivity> contexts_;
  std::vector<core::StreamActivity> streams_;
};

}  // namespace stepagent::drain
