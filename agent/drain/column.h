#pragma once
// Column: one packed varint field of a batch, written as records come in.
//
// Purpose: a record is encoded once, straight into the bytes that go out; closing a batch only
// copies columns together. A column whose values are all zero costs nothing and is absent.
// Thread rule: belongs to one builder.
// Failure rule: cannot fail but for memory; the buffer is kept from batch to batch, so the steady
// state allocates nothing.
#include <bit>
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
    if (used_ == 0) [[unlikely]] {
      if (value == 0) return;
      BackFill(row);
    }
    if (capacity_ - used_ < kLongest) [[unlikely]]
      Grow(kLongest);
    used_ += Put(bytes_.get() + used_, value);
  }
  void AddSigned(uint32_t row, int64_t value) { Add(row, protozero::encode_zigzag64(value)); }

  // Rows `row` to `row + count`: `value(i)` for i = 0, 1 … The loop keeps the column's state in
  // registers, which one Add a column and record cannot: a call costs 255 instructions, not 356.
  template <typename Value>
  void AddRun(uint32_t row, uint32_t count, Value&& value) {
    AddRunBy<&Column::Put>(row, count, value);
  }
  // The same for columns that mix lengths from one byte on: no branch on the length at all.
  template <typename Value>
  void AddMixedRun(uint32_t row, uint32_t count, Value&& value) {
    AddRunBy<&Column::PutMixed>(row, count, value);
  }

  [[nodiscard]] bool empty() const { return used_ == 0; }
  [[nodiscard]] const char* data() const { return bytes_.get(); }
  [[nodiscard]] uint32_t size() const { return used_; }
  void Clear() { used_ = 0; }

 private:
  static constexpr uint32_t kLongest = protozero::max_varint_length;

  template <auto kPut, typename Value>
  void AddRunBy(uint32_t row, uint32_t count, Value& value) {
    uint32_t i = 0;
    uint64_t first = 0;
    if (used_ == 0) {
      while (i < count && (first = value(i)) == 0) ++i;
      if (i == count) return;
      BackFill(row + i);
    }
    const uint32_t room = (count - i) * kLongest;
    if (capacity_ - used_ < room) [[unlikely]]
      Grow(room);
    char* at = bytes_.get() + used_;
    if (first != 0) at += kPut(at, first), ++i;
    for (; i < count; ++i) at += kPut(at, value(i));
    used_ = static_cast<uint32_t>(at - bytes_.get());
  }

  // One byte is the commonest and well predicted: most columns hold nothing else. Lengths of two to
  // four change from record to record and are mispredicted, so they are written without a branch.
  // protozero's loop takes the rest. Writes four bytes; the room for the longest is there.
  static uint32_t Put(char* to, uint64_t value) {
    if (value < 0x80) [[likely]] {
      *to = static_cast<char>(value);
      return 1;
    }
    return PutMixed(to, value);
  }
  static uint32_t PutMixed(char* to, uint64_t value) {
    if (value >= uint64_t{1} << 28) [[unlikely]] {
      return static_cast<uint32_t>(protozero::add_varint_to_buffer(to, value));
    }
    const auto v = static_cast<uint32_t>(value);
    const uint32_t over_one = v >= 0x80 ? 1 : 0, over_two = v >= 0x4000 ? 1 : 0,
                   over_three = v >= 0x200000 ? 1 : 0;
    uint32_t spread = (v & 0x7F) | (v & 0x3F80) << 1 | (v & 0x1FC000) << 2 | (v & 0xFE00000) << 3 |
                      over_one << 7 | over_two << 15 | over_three << 23;
    if constexpr (std::endian::native == std::endian::big) spread = __builtin_bswap32(spread);
    std::memcpy(to, &spread, sizeof spread);
    return 1 + over_one + over_two + over_three;
  }
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
  template <typename Value>
  void AddRun(uint32_t row, uint32_t count, Value&& value) {
    uint64_t previous = previous_;
    column_.AddMixedRun(row, count, [&](uint32_t i) {
      const uint64_t now = value(i);
      const uint64_t difference = protozero::encode_zigzag64(static_cast<int64_t>(now - previous));
      previous = now;
      return difference;
    });
    previous_ = previous;
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
