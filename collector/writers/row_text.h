#pragma once
// Formats one JSON row at a time, where the file's blocks are.
//
// Purpose: the fast path of the Chrome writer: literals are copied, numbers go through to_chars,
// capacity is checked once a row and not once a field, and no row is copied once more.
// Thread rule: one object, one thread.
// Failure rule: errors stay in the OutputFile.
#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "collector/writers/output_file.h"

namespace stepagent::writers {

class RowText {
 public:
  explicit RowText(OutputFile& file) : file_(file) {}

  // Ensures room for one row: `variable_bytes` of text (names) and kFixedBytes of everything else.
  void Begin(size_t variable_bytes) {
    const size_t needed = variable_bytes + kFixedBytes;
    if (static_cast<size_t>(room_.end - at_) >= needed) return;
    Flush();
    room_ = file_.Reserve(needed);
    at_ = room_.begin;
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
  // Before anybody else writes to the file.
  void Flush() {
    if (at_ != room_.begin) file_.Advance(static_cast<size_t>(at_ - room_.begin));
    room_ = {};
    at_ = nullptr;
  }

 private:
  static constexpr size_t kFixedBytes = 2048;  // the longest row without its names is under 900

  OutputFile& file_;
  BlockStream::Room room_{};
  char* at_ = nullptr;
};

}  // namespace stepagent::writers
