#include "agent/cupti/decoder.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace stepagent::cupti {
namespace {

uint64_t Distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

const Decoder::Route& Decoder::RouteFor(uint32_t kind) {
  static constexpr auto kRoutes = [] {
    std::array<Route, kKindLimit> routes{};
    routes[kKindKernel] = {&Decoder::OnKernel, kActivityKernel};
    routes[kKindConcurrentKernel] = {&Decoder::OnKernel, kActivityKernel};
    routes[kKindMemcpy] = {&Decoder::OnMemcpy, kActivityMemcpy};
    routes[kKindMemcpyPeer] = {&Decoder::OnMemcpyPeer, kActivityMemcpy};
    routes[kKindMemset] = {&Decoder::OnMemset, kActivityMemset};
    routes[kKindSync] = {&Decoder::OnSync, kActivitySync};
    routes[kKindOverhead] = {&Decoder::OnOverhead, kActivityOverhead};
    routes[kKindGraphTrace] = {&Decoder::OnGraphTrace, kActivityKernel};
    routes[kKindMemory2] = {&Decoder::OnMemory, kActivityMemory};
    routes[kKindDevice] = {&Decoder::OnDevice, kActivityNone};
    routes[kKindContext] = {&Decoder::OnContext, kActivityNone};
    routes[kKindStream] = {&Decoder::OnStream, kActivityNone};
    return routes;
  }();
  static constexpr Route kNone;
  return kind < kKindLimit ? kRoutes[kind] : kNone;
}

void Decoder::Use(const ApiTable* api, const Layouts* layouts, const Driver* driver) {
  api_ = api;
  layouts_ = layouts;
  driver_ = driver;
}

void Decoder::ForgetNames() {
  names_.Clear();
  are_names_lost_ = false;
}

bool Decoder::Reject(uint32_t activity, core::ActivitySink* sink) {
  ++counts_.invalid;
  sink->OnInvalid(activity);
  return false;
}

uint64_t Decoder::DecodeBuffer(uint8_t* data, size_t valid_bytes, core::ActivitySink* sink) {
  const uint64_t before = counts_.decoded;
  const uint8_t* const end = data + valid_bytes;
  const uint8_t* previous = nullptr;
  ptrdiff_t previous_bytes = 0;
  CUpti_Activity* record = nullptr;
  names_.BeginBuffer();
  while (valid_bytes >= sizeof(uint32_t)) {
    const CUptiResult result = api_->ActivityGetNextRecord(data, valid_bytes, &record);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) break;
    const auto* at = reinterpret_cast<const uint8_t*>(record);
    // A kind the iterator does not know (21, on 11.x 999) ends the walk: nobody knows where the
    // next record begins. One that leaves the buffer or stands still would be the iterator's own
    // fault.
    if (result != CUPTI_SUCCESS || at < data || at + sizeof(uint32_t) > end ||
        (previous != nullptr && at <= previous)) {
      Reject(kActivityNone, sink);
      break;
    }
    if (previous_bytes != 0 && at - previous != previous_bytes) ++counts_.odd_lengths;
    previous = at;
    uint32_t kind;
    std::memcpy(&kind, at, sizeof(kind));
    const uint32_t bytes = layouts_->bytes(kind);
    previous_bytes = bytes;
    if (bytes > static_cast<size_t>(end - at)) {  // cut short at the buffer's end
      Reject(RouteFor(kind).activity, sink);
      break;
    }
    if (DecodeRecord(kind, RecordView(at, bytes), sink)) ++counts_.decoded;
  }
  return counts_.decoded - before;
}

bool Decoder::DecodeRecord(uint32_t kind, const RecordView& record, core::ActivitySink* sink) {
  const Route& route = RouteFor(kind);
  if (route.handler == nullptr) {
    ++counts_.other_kinds;
    ++counts_.other_by_kind[std::min(kind, uint32_t{kKindLimit})];
    return false;
  }
  if (!layouts_->IsDecodable(kind)) return Reject(route.activity, sink);
  return (this->*route.handler)(record, sink);
}

uint8_t Decoder::OddTimingFlags(uint64_t start_ns, uint64_t end_ns) {
  uint8_t flags = 0;
  const bool is_other_clock = now_ns_ != 0 && Distance(start_ns, now_ns_) > kBelievableNs;
  if (start_ns == 0 || is_other_clock) {
    flags = core::kDeviceNoTiming;
  } else if (end_ns == 0) {
    flags = core::kDeviceUnfinished;
  } else if (end_ns < start_ns) {
    flags = core::kDeviceReversed;
  } else if (end_ns - start_ns > kBelievableNs) {
    flags = core::kDeviceNoTiming;
  }
  if ((flags & core::kDeviceNoTiming) != 0) ++counts_.no_timing;
  return flags;
}

}  // namespace stepagent::cupti
