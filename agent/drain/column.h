#pragma once
// Column: one packed varint field of a batch, written as records come in.
//
// Purpose: a record is encoded once, straight into the bytes that go out; closing a batch only
// copies columns together. A column whose values are all zero costs nothing and is absent.
// Thread rule: belongs to one builder.
// Failure rule: cannot fail but for memory; the buffer is kept from batch to batch, so the steady
// state allocates nothing.
#include <cstdint>
#include <cstring>
#include <memory>
#include <protozero/varint.hpp>

namespace stepagent::drain {

class Column {
 public:
  // `row` is the number of the record: rows before the first value that is not zero are filled in
  // when it comes.
  void Add(uint32_t row, uint64_t value) {
    if (used_ == 0) {
      if (value == 0) return;
      BackFill(row);
    }
    if (capacity_ - used_ < kLongest) [[unlikely]] Grow(kLongest);
    used_ += static_cast<uint32_t>(protozero::add_varint_to_buffer(bytes_.get() + used_, value));
  }
  void AddSigned(uint32_t row, int64_t value) { Add(row, protozero::encode_zigzag64(value)); }

  [[nodiscard]] bool empty() const { return used_ == 0; }
  [[nodiscard]] const char* data() const { return bytes_.get(); }
  [[nodiscard]] uint32_t size() const { return used_; }
  void Clear() { used_ = 0; }

 private:
  static constexpr uint32_t kLongest = protozero::max_varint_length;

  void BackFill(uint32_t rows) {
    if (capacity_ < rows + kLongest) Grow(rows + kLongest);
    std::memset(bytes_.get(), 0, rows);
    used_ = rows;
  }
  [[gnu::noinline]] void Grow(uint32_t room) {
    uint32_t capacity = capacity_ == 0 ? 256 : capacity_ * 2;
    while (capacity - used_ < room) capacity *= 2;
    auto bytes = std::make_unique<char[]>(capacity);
    if (used_ != 0) std::memcpy(bytes.get(), bytes_.get(), used_);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> bytes_;
  uint32_t used_ = 0;
  uint32_t capacity_ = 0;
};

// The difference to the entry before, the first to zero. Differences wrap as the reader's sums do,
// so every 64-bit value comes back exactly.
class DeltaColumn {
 public:
  void Add(uint32_t row, uint64_t value) {
    column_.AddSigned(row, static_cast<int64_t>(value - previous_));
    previous_ = value;
  }
  [[nodiscard]] const Column& column() const { return column_; }
  void Clear() {
    column_.Clear();
    previous_ = 0;
  }

 private:
  Column column_;
  uint64_t previous_ = 0;
};

}  // namespace stepagent::drain
