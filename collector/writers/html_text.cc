#include "collector/writers/html_text.h"

#include <array>

#include "collector/writers/json_text.h"
#include "collector/writers/sha256.h"
#include "nlohmann/json.hpp"

namespace stepagent::writers {
namespace {

std::string HexDigest(std::string_view bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.HexDigest();
}

uint32_t HexValue(char c) { return static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string HtmlText(std::string_view bytes) {
  std::string out;
  for (const char c : ValidUtf8(bytes)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\0':
        out += "\xEF\xBF\xBD";  // a parser would drop it
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string ScriptSafe(std::string json) {
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

std::string ShortenedName(std::string_view bytes) {
  const std::string text = ValidUtf8(bytes);
  if (text.size() <= kNameBytes) return text;
  size_t head = kNameBytes * 3 / 4, tail = text.size() - kNameBytes / 8;
  while (head > 0 && IsContinuation(text[head])) --head;
  while (tail < text.size() && IsContinuation(text[tail])) ++tail;
  return text.substr(0, head) + " … " + text.substr(tail) + " [" + std::to_string(bytes.size()) +
         " bytes, sha256 " + HexDigest(bytes).substr(0, 12) + "]";
}

void ShortenStrings(nlohmann::ordered_json& document) {
  if (document.is_string()) {
    std::string& text = document.get_ref<std::string&>();
    if (text.size() > kNameBytes) text = ShortenedName(text);
  } else if (document.is_structured()) {
    for (auto& part : document) ShortenStrings(part);
  }
}

std::string PolicyHash(std::string_view content) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = HexDigest(content);
  std::string out = "'sha256-";
  // 32 bytes: ten groups of three and one of two.
  for (size_t at = 0; at < hex.size(); at += 6) {
    std::array<uint32_t, 6> digits{};
    for (size_t i = 0; i < 6 && at + i < hex.size(); ++i) digits[i] = HexValue(hex[at + i]);
    uint32_t group = 0;
    for (const uint32_t digit : digits) group = group << 4 | digit;
    const size_t letters = at + 6 <= hex.size() ? 4 : 3;
    for (size_t i = 0; i < letters; ++i) out += kAlphabet[group >> (18 - 6 * i) & 63];
    if (letters == 3) out += '=';
  }
  return out + "'";
}

}  // namespace stepagent::writers
