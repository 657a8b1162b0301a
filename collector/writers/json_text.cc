#include "collector/writers/json_text.h"

#include <cstdint>

namespace stepagent::writers {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

void AppendEscaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto u = static_cast<uint8_t>(c);
  if (u >= 0x20 && u != 0x7F) {
    out += c;
    return;
  }
  out += "\\u00";
  out += "0123456789abcdef"[u >> 4];
  out += "0123456789abcdef"[u & 15];
}

}  // namespace

// RFC 3629.
size_t Utf8SequenceLength(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < s.size() ? static_cast<uint8_t>(s[at + i]) : 0;
  };
  const auto is_tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!is_tail(1) || !is_tail(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!is_tail(1) || !is_tail(2) || !is_tail(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

void AppendJsonString(std::string& out, std::string_view bytes) {
  out += '"';
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = Utf8SequenceLength(bytes, i);
    if (length == 1) {
      AppendEscaped(out, bytes[i]);
    } else if (length == 0) {
      out += kReplacement;
    } else {
      out += bytes.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  out += '"';
}

std::string JsonString(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 2);
  AppendJsonString(out, bytes);
  return out;
}

std::string ValidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = Utf8SequenceLength(bytes, i);
    out += length == 0 ? kReplacement : bytes.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace stepagent::writers
