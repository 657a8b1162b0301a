#pragma once
// The wire's column rules.
//
// Purpose: absent columns are zeros, deltas add up, device sections share half of their columns.
// Thread rule: views into one batch. Failure rule: hostile numbers wrap, nothing overflows.
#include <algorithm>
#include <cstdint>

#include "batch.pb.h"

#include "collector/model/cycle.h"

namespace stepagent::model {

// Times beyond these are nobody's clock (years 1966 and 2103); within them, differences and sums of
// two cannot overflow.
inline constexpr TimeNs kEarliestNs = -100'000'000'000'000'000;
inline constexpr TimeNs kLatestNs = 4'200'000'000'000'000'000;

inline TimeNs ClampTime(int64_t ns) { return std::clamp<int64_t>(ns, kEarliestNs, kLatestNs); }

// A column that is absent or of the wrong length reads as zeros.
template <typename T>
class Column {
 public:
  Column(const google::protobuf::RepeatedField<T>& field, uint32_t count)
      : data_(static_cast<uint32_t>(field.size()) == count ? field.data() : nullptr) {}
  [[nodiscard]] T operator[](uint32_t i) const { return data_ != nullptr ? data_[i] : T{}; }

 private:
  const T* data_;
};

template <typename T>
class DeltaColumn {
 public:
  DeltaColumn(const google::protobuf::RepeatedField<T>& field, uint32_t count)
      : column_(field, count) {}
  // Unsigned arithmetic: hostile deltas wrap instead of overflowing.
  [[nodiscard]] int64_t Next(uint32_t i) {
    sum_ += static_cast<uint64_t>(column_[i]);
    return static_cast<int64_t>(sum_);
  }

 private:
  Column<T> column_;
  uint64_t sum_ = 0;
};

// End of an interval without signed overflow.
inline TimeNs EndOf(TimeNs begin, uint64_t duration) {
  return begin + static_cast<TimeNs>(std::min<uint64_t>(duration, kLatestNs));
}

// What every section of device work has.
template <typename Section>
class DeviceColumns {
 public:
  DeviceColumns(const Section& s, uint32_t count)
      : lane_(s.lane(), count),
        graph_(s.graph_id(), count),
        flags_(s.flags(), count),
        duration_(s.duration_ns(), count),
        start_(s.device_start_delta(), count),
        correlation_(s.correlation_delta(), count) {}
  // To be called for i = 0, 1, 2 …; returns the index into the section's lanes.
  uint32_t Fill(uint32_t i, DeviceItem* item);

 private:
  Column<uint32_t> lane_, graph_, flags_;
  Column<uint64_t> duration_;
  DeltaColumn<int64_t> start_, correlation_;
};

inline bool HasBegin(uint32_t flags) { return (flags & v1::DEVICE_NO_TIMING) == 0; }
inline bool HasEnd(uint32_t flags) { return (flags & v1::DEVICE_UNFINISHED) == 0; }
inline bool IsInvalid(uint32_t flags) {
  return (flags & (v1::DEVICE_NO_TIMING | v1::DEVICE_UNFINISHED | v1::DEVICE_REVERSED)) != 0;
}

template <typename Section>
uint32_t DeviceColumns<Section>::Fill(uint32_t i, DeviceItem* item) {
  item->begin_ns = ClampTime(start_.Next(i));
  item->end_ns = EndOf(item->begin_ns, duration_[i]);
  item->correlation = static_cast<uint32_t>(correlation_.Next(i));
  item->graph_id = graph_[i];
  item->placed = !IsInvalid(flags_[i]);
  item->has_begin = HasBegin(flags_[i]);
  item->has_end = HasEnd(flags_[i]);
  return lane_[i];
}

}  // namespace stepagent::model
