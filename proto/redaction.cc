#include "proto/redaction.h"

#include <algorithm>

namespace stepagent::proto {
namespace {

constexpr struct {
  std::string_view word;
  uint32_t bit;
} kKinds[] = {{"paths", kRedactPaths},
              {"names", kRedactNames},
              {"args", kRedactArgs},
              {"hosts", kRedactHosts}};
constexpr size_t kHexDigits = 16;

bool IsBorder(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\'' || c == '"' || c == '(' || c == ')' ||
         c == ',' || c == ';';
}

}  // namespace

uint32_t RedactBits(const std::vector<std::string>& words) {
  uint32_t bits = 0;
  for (const auto& kind : kKinds) {
    if (std::find(words.begin(), words.end(), kind.word) != words.end()) bits |= kind.bit;
  }
  return bits;
}

std::vector<std::string> RedactWords(uint32_t bits) {
  std::vector<std::string> words;
  for (const auto& kind : kKinds) {
    if ((bits & kind.bit) != 0) words.emplace_back(kind.word);
  }
  return words;
}

bool IsRedactedHost(std::string_view host) {
  return host.size() == kHostPrefix.size() + kHexDigits && host.starts_with(kHostPrefix) &&
         host.find_first_not_of("0123456789abcdef", kHostPrefix.size()) == std::string_view::npos;
}

PathSpan FindPaths(std::string_view text) {
  PathSpan span;
  const size_t first = text.find('/');
  if (first == std::string_view::npos) return span;
  span.begin = first;
  while (span.begin > 0 && !IsBorder(text[span.begin - 1])) --span.begin;
  const size_t last = text.rfind('/');
  const size_t colon = text.find(": ", last);  // "path: reason": the path may hold spaces
  span.end = last + 1;
  while (span.end < text.size() && !IsBorder(text[span.end])) ++span.end;
  if (text[span.end - 1] == '.') --span.end;
  if (colon != std::string_view::npos) span.end = colon;
  return span;
}

std::string WithoutPaths(std::string_view text, std::string_view instead) {
  const PathSpan span = FindPaths(text);
  if (span.begin == std::string_view::npos) return std::string(text);
  return std::string(text.substr(0, span.begin)) + std::string(instead) +
         std::string(text.substr(span.end));
}

}  // namespace stepagent::proto
