#include "agent/drain/message_writer.h"

namespace stepagent::drain {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the well-formed sequence at the front of `text`, 0 when there is none (Unicode table
// 3-7: no overlong forms, surrogates or numbers past U+10FFFF).
size_t SequenceBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  size_t bytes = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    bytes = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    bytes = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    bytes = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (bytes == 0 || text.size() < bytes || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return bytes;
}

}  // namespace

std::string ValidUtf8(std::string_view text, size_t max_bytes) {
  std::string valid;
  valid.reserve(text.size() < max_bytes ? text.size() : max_bytes);
  while (!text.empty()) {
    const size_t bytes = SequenceBytes(text);
    const std::string_view piece = bytes == 0 ? kReplacement : text.substr(0, bytes);
    if (valid.size() + piece.size() > max_bytes) break;
    valid.append(piece);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return valid;
}

}  // namespace stepagent::drain
