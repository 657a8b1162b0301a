#include "collector/analysis/text_format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "collector/writers/json_text.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

std::string ThreeDigits(double value, const char* unit) {
  const double size = std::fabs(value);
  if (size >= 99.95) return fmt::format("{:.0f} {}", value, unit);
  if (size >= 9.995) return fmt::format("{:.1f} {}", value, unit);
  return fmt::format("{:.2f} {}", value, unit);
}

bool IsTail(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// "1.23 ms" stays on one line: whether the text goes on with a unit after a space.
size_t UnitLength(std::string_view rest) {
  constexpr std::string_view kUnits[] = {"ns", "us", "ms", "s", "B", "kB", "MB", "GB", "GB/s", "%"};
  if (!rest.starts_with(' ')) return 0;
  const std::string_view word = rest.substr(1, rest.find(' ', 1) - 1);
  const size_t letters = std::min(word.find_first_of(",;.)"), word.size());
  for (const std::string_view unit : kUnits) {
    if (word.substr(0, letters) == unit) return 1 + word.size();
  }
  return 0;
}

// Bytes of the first `columns` code points.
size_t Prefix(std::string_view utf8, size_t columns) {
  size_t at = 0;
  while (at < utf8.size() && columns > 0) {
    ++at;
    while (at < utf8.size() && IsTail(utf8[at])) ++at;
    --columns;
  }
  return at;
}

}  // namespace

std::string Duration(int64_t ns) {
  const double v = static_cast<double>(ns), size = std::fabs(v);
  if (size < 1e3) return fmt::format("{} ns", ns);
  if (size < 999.5e3) return ThreeDigits(v / 1e3, "us");
  if (size < 999.5e6) return ThreeDigits(v / 1e6, "ms");
  return ThreeDigits(v / 1e9, "s");
}

std::string Bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) value /= 1000, ++unit;
  return ThreeDigits(value, kUnits[unit]);
}

std::string Count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string Percent(double share) { return fmt::format("{:.1f} %", share * 100); }

size_t Columns(std::string_view utf8) {
  size_t columns = 0;
  for (const char c : utf8) columns += !IsTail(c);
  return columns;
}

std::string Fit(std::string_view name, size_t width) {
  std::string text = writers::ValidUtf8(name);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // no terminal escapes
  }
  const size_t columns = Columns(text);
  if (columns <= width) return text;
  if (width < 8) return text.substr(0, Prefix(text, width));
  const size_t head = (width - 2) * 2 / 3, tail = width - 2 - head;
  return text.substr(0, Prefix(text, head)) + ".." + text.substr(Prefix(text, columns - tail));
}

std::string PadRight(std::string text, size_t width) {
  const size_t columns = Columns(text);
  if (columns < width) text.append(width - columns, ' ');
  return text;
}

std::string PadLeft(std::string text, size_t width) {
  const size_t columns = Columns(text);
  return columns < width ? std::string(width - columns, ' ') + text : text;
}

std::string Paragraph(std::string_view label, size_t label_width, std::string_view text,
                      size_t width) {
  std::string out = PadRight(std::string(label), label_width);
  size_t column = label_width;
  bool is_first = true;  // of its line
  while (!text.empty()) {
    size_t space = text.find(' ');
    if (space != std::string_view::npos) {
      space += UnitLength(text.substr(space));
      if (space == text.size()) space = std::string_view::npos;
    }
    const std::string_view word = text.substr(0, space);
    const size_t needed = Columns(word);
    if (!is_first && column + 1 + needed > width) {
      out += '\n';
      out.append(label_width, ' ');
      column = label_width;
      is_first = true;
    }
    if (!is_first) out += ' ', ++column;
    out += word;
    column += needed;
    is_first = false;
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  while (out.ends_with(' ')) out.pop_back();
  return out + "\n";
}

}  // namespace stepagent::analysis
