#include "agent/drain/device_rows.h"

#include <algorithm>

#include "agent/drain/message_writer.h"

namespace stepagent::drain {
namespace {

// Replaces the row with the same key, else appends. Only the first `cap` rows, those that are kept,
// are looked at: thousands of new streams in one batch must not cost their square.
template <typename Row, typename SameKey>
void Put(std::vector<Row>* rows, size_t cap, const Row& row, SameKey&& same_key) {
  const auto end = rows->begin() + static_cast<std::ptrdiff_t>(std::min(rows->size(), cap));
  const auto found = std::find_if(rows->begin(), end, same_key);
  if (found != end) {
    *found = row;
  } else {
    rows->push_back(row);
  }
}

void WriteDevice(BatchWriter* batch, const core::DeviceActivity& d,
                 const std::string& device_name) {
  using enum wire::Device;
  protozero::pbf_builder<wire::Device> message(*batch, wire::Batch::devices);
  PutUint(&message, ordinal, d.ordinal);
  PutBytes(&message, name, device_name);
  message.add_bytes(uuid, reinterpret_cast<const char*>(d.uuid), sizeof d.uuid);
  PutUint(&message, memory_bytes, d.memory_bytes);
  PutUint(&message, multiprocessors, d.multiprocessors);
  PutUint(&message, compute_major, d.compute_major);
  PutUint(&message, compute_minor, d.compute_minor);
  PutUint(&message, clock_khz, d.clock_khz);
  PutUint(&message, memory_bandwidth_kbps, d.memory_bandwidth_kbps);
  PutUint(&message, warp_size, d.warp_size);
  PutUint(&message, max_threads_per_block, d.max_threads_per_block);
  PutUint(&message, max_threads_per_multiprocessor, d.max_threads_per_multiprocessor);
  PutUint(&message, registers_per_block, d.registers_per_block);
  PutUint(&message, registers_per_multiprocessor, d.registers_per_multiprocessor);
  PutUint(&message, shared_per_block, d.shared_per_block);
  PutUint(&message, shared_per_multiprocessor, d.shared_per_multiprocessor);
  PutUint(&message, shared_per_block_optin, d.shared_per_block_optin);
}

}  // namespace

void DeviceRows::Add(const core::DeviceActivity& device) {
  Device row{.row = device, .name = device.name == nullptr ? "" : device.name};
  row.row.name = nullptr;  // valid during the call only
  if (row.name.size() > proto::kMaxNameBytes) row.name.resize(proto::kMaxNameBytes);
  Put(&devices_, kMaxDevices, row,
      [&](const Device& other) { return other.row.ordinal == device.ordinal; });
}

void DeviceRows::Add(const core::ContextActivity& context) {
  Put(&contexts_, kMaxContexts, context,
      [&](const core::ContextActivity& other) { return other.id == context.id; });
}

void DeviceRows::Add(const core::StreamActivity& stream) {
  Put(&streams_, kMaxStreams, stream, [&](const core::StreamActivity& other) {
    return other.context == stream.context && other.id == stream.id;
  });
}

std::vector<uint32_t> DeviceRows::DevicesInUse() const {
  std::vector<uint32_t> devices;
  for (const core::ContextActivity& context : contexts_) devices.push_back(context.device);
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

void DeviceRows::Write(BatchWriter* batch) const {
  for (const Device& device : devices_) WriteDevice(batch, device.row, device.name);
  for (const core::ContextActivity& context : contexts_) {
    protozero::pbf_builder<wire::Context> message(*batch, wire::Batch::contexts);
    PutUint(&message, wire::Context::id, context.id);
    PutUint(&message, wire::Context::device, context.device);
    PutUint(&message, wire::Context::null_stream, context.null_stream);
  }
  for (const core::StreamActivity& stream : streams_) {
    protozero::pbf_builder<wire::Stream> message(*batch, wire::Batch::streams);
    PutUint(&message, wire::Stream::context, stream.context);
    PutUint(&message, wire::Stream::id, stream.id);
    PutSigned(&message, wire::Stream::priority, stream.priority);
    PutUint(&message, wire::Stream::flag, stream.flag);
  }
}

void DeviceRows::Clear() {
  if (devices_.size() > kMaxDevices) devices_.resize(kMaxDevices);
  if (contexts_.size() > kMaxContexts) contexts_.resize(kMaxContexts);
  if (streams_.size() > kMaxStreams) streams_.resize(kMaxStreams);
}

}  // namespace stepagent::drain
