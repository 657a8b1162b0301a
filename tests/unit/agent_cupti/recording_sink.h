#pragma once
// RecordingSink: keeps what a decoder gives. One thread.
#include <cstring>
#include <string>
#include <vector>

#include "agent/core/activity.h"

namespace stepagent::cupti {

class RecordingSink final : public core::ActivitySink {
 public:
  void OnKernel(const core::KernelActivity& a) override { kernels.push_back(a); }
  void OnMemcpy(const core::MemcpyActivity& a) override { memcpys.push_back(a); }
  void OnMemset(const core::MemsetActivity& a) override { memsets.push_back(a); }
  void OnSync(const core::SyncActivity& a) override { syncs.push_back(a); }
  void OnGraphLaunch(const core::GraphActivity& a) override { graphs.push_back(a); }
  void OnOverhead(const core::OverheadActivity& a) override { overheads.push_back(a); }
  void OnMemory(const core::MemoryActivity& a) override { memories.push_back(a); }
  void OnDevice(const core::DeviceActivity& a) override {
    devices.push_back(a);
    device_names.emplace_back(a.name);
    devices.back().name = nullptr;
  }
  void OnContext(const core::ContextActivity& a) override { contexts.push_back(a); }
  void OnStream(const core::StreamActivity& a) override { streams.push_back(a); }
  void OnInvalid(uint32_t activity) override { invalid.push_back(activity); }

  std::vector<core::KernelActivity> kernels;
  std::vector<core::MemcpyActivity> memcpys;
  std::vector<core::MemsetActivity> memsets;
  std::vector<core::SyncActivity> syncs;
  std::vector<core::GraphActivity> graphs;
  std::vector<core::OverheadActivity> overheads;
  std::vector<core::MemoryActivity> memories;
  std::vector<core::DeviceActivity> devices;
  std::vector<std::string> device_names;
  std::vector<core::ContextActivity> contexts;
  std::vector<core::StreamActivity> streams;
  std::vector<uint32_t> invalid;
};

}  // namespace stepagent::cupti
