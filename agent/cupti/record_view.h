#pragma once
// RecordView: the bytes of one activity record, read field by field.
//
// Purpose: fields lie at the same offset in every version; what differs is how long the record is.
// Thread rule: a plain value. Failure rule: a field beyond the record's length is its fallback.
#include <cstdint>
#include <cstring>

namespace stepagent::cupti {

class RecordView {
 public:
  RecordView(const uint8_t* data, uint32_t bytes) : data_(data), bytes_(bytes) {}

  // A field of the family's oldest layout; the decoder has checked the minimum length.
  template <typename T>
  [[nodiscard]] T Get(uint32_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }
  // The same for several of one type in a row.
  template <typename T>
  void CopyTo(T* target, uint32_t offset) const {
    std::memcpy(target, data_ + offset, sizeof(T));
  }
  // A field that records of at least `since` bytes have. Never judged by its own offset: some
  // fields took the place of padding in a record that did not grow by them alone.
  template <typename T>
  [[nodiscard]] T GetSince(uint32_t since, uint32_t offset, T fallback = T()) const {
    return IsSince(since) ? Get<T>(offset) : fallback;
  }
  [[nodiscard]] bool IsSince(uint32_t since) const { return bytes_ >= since; }

 private:
  const uint8_t* data_;
  uint32_t bytes_;
};

}  // namespace stepagent::cupti
