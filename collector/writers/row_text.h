#pragma once
// Formats one JSON row at a time into a buffer that is handed to the file when it is full.
//
// Purpose: the fast path of the Chrome writer: literals are copied, numbers go through to_chars,
// capacity is checked once a row and not once a field.
// Thread rule: one object, one thread.
// Failure rule: errors stay in the OutputFile.
#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "collector/writers/output_file.h"

namespace stepagent::writers {

class RowText {
 public:
  explicit RowText(OutputFile& file)
      : file_(file), buffer_(std::make_unique<char[]>(kCapacity)), at_(buffer_.get()) {}

  // Ensures room for one row: `variable_bytes` of text (names) and kFixedBytes of everything else.
  void Begin(size_t variable_bytes) {
    const size_t needed = variable_bytes + kFixedBytes;
    if (static_cast<size_t>(buffer_.get() + capacity_ - at_) >= needed) return;
    Flush();
    if (needed <= capacity_) return;
    buffer_ = std::make_unique<char[]>(needed);
    capacity_ = needed;
    at_ = buffer_.get();
  }
  void Text(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  template <size_t N>
  void Literal(const char (&text)[N]) {
    std::memcpy(at_, text, N - 1);
    at_ += N - 1;
  }
  template <std::integral T>
  void Number(T value) {
    at_ = std::to_chars(at_, at_ + 24, value).ptr;
  }
  // Microseconds with exactly three decimals, never negative (formats: clamp to 0).
  void Micros(int64_t ns) {
    const auto v = static_cast<uint64_t>(ns < 0 ? 0 : ns);
    at_ = std::to_chars(at_, at_ + 24, v / 1000).ptr;
    const auto rest = static_cast<unsigned>(v % 1000);
    *at_++ = '.';
    *at_++ = static_cast<char>('0' + rest / 100);
    *at_++ = static_cast<char>('0' + rest / 10 % 10);
    *at_++ = static_cast<char>('0' + rest % 10);
  }
  void Fixed(double value, int decimals) {
    at_ = std::to_chars(at_, at_ + 48, value, std::chars_format::fixed, decimals).ptr;
  }
  void Flush() {
    file_.Write(std::string_view(buffer_.get(), static_cast<size_t>(at_ - buffer_.get())));
    at_ = buffer_.get();
  }

 private:
  static constexpr size_t kCapacity = size_t{1} << 18;
  static constexpr size_t kFixedBytes = 2048;  // the longest row without its names is under 900

  OutputFile& file_;
  size_t capacity_ = kCapacity;
  std::unique_ptr<char[]> buffer_;
  char* at_;
};

}  // namespace stepagent::writers
