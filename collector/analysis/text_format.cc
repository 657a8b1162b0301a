#include "collector/analysis/text_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

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

uint32_t CodePoint(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(sequence[i])); };
  switch (sequence.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3:
      return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 |
             (byte(3) & 0x3f);
  }
}

// C1 controls, and Unicode's format characters and separators of lines: what takes no place of its
// own but changes how the rest is read. Joiners within words of some scripts are among them.
bool IsUnseen(uint32_t point) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},   {0x200b, 0x200f},
      {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},   {0x1d173, 0x1d17a},
      {0xe0000, 0xe007f}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [point](const auto& range) {
    return point >= range.first && point <= range.second;
  });
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

std::string Printable(std::string_view text, bool keeps_lines) {
  const std::string valid = writers::ValidUtf8(text);
  std::string out;
  out.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) {
    const size_t length = writers::Utf8SequenceLength(valid, at);
    const uint32_t point = CodePoint(std::string_view(valid).substr(at, length));
    if (point == '\n' && keeps_lines) {
      out += '\n';
    } else if (point < 0x20 || point == 0x7f) {
      out += '?';
    } else if (IsUnseen(point)) {
      out += point > 0xffff ? fmt::format("\\U{:08x}", point) : fmt::format("\\u{:04x}", point);
    } else {
      out.append(valid, at, length);
    }
    at += length;
  }
  return out;
}

std::string Fit(std::string_view name, size_t width) {
  const std::string text = Printable(name);
  const size_t columns = Columns(text);
  if (columns <= width) return text;
  if (width < 8) return text.substr(0, Prefix(text, width));
  const size_t head = (width - 2) * 2 / 3, tail = width - 2 - head;
  return text.substr(0, Prefix(text, head)) + ".." + text.substr(Prefix(text, columns - tail));
}

std::string FitSentence(std::string_view sentence, size_t width) {
  const std::string text = Printable(sentence);
  if (Columns(text) <= width || width < 8) return Fit(sentence, width);
  std::string kept = text.substr(0, Prefix(text, width - 1));
  // A word longer than half of it is none: there the cut is where it falls.
  const size_t space = kept.rfind(' ');
  const bool is_in_word = text[kept.size()] != ' ';
  if (is_in_word && space != std::string::npos && space > kept.size() / 2) kept.resize(space);
  while (kept.ends_with(' ')) kept.pop_back();
  return kept + "…";
}

namespace {

// The begin, and what stands where the names part.
std::string FitAt(const std::string& name, size_t parting, size_t width) {
  const size_t head = width / 3, room = width - head - 4;
  const std::string piece = name.substr(std::min(parting, name.size()));
  const size_t length = Prefix(piece, room);
  return name.substr(0, std::min(Prefix(name, head), parting)) + ".." + piece.substr(0, length) +
         (length < piece.size() ? ".." : "");
}

// Where the first of them differs from the others, at the begin of a character.
size_t PartingOf(const std::set<std::string>& names) {
  const std::string &first = *names.begin(), &last = *names.rbegin();  // sorted: these differ first
  size_t at = 0;
  while (at < first.size() && at < last.size() && first[at] == last[at]) ++at;
  while (at > 0 && at < first.size() && IsTail(first[at])) --at;
  return at;
}

}  // namespace

std::vector<std::string> FitApart(const std::vector<std::string>& names, size_t width) {
  constexpr size_t kLeast = 16;
  std::vector<std::string> whole, out;
  std::map<std::string, std::set<std::string>> alike;  // what was cut to the same
  for (const std::string& name : names) {
    whole.push_back(Printable(name));
    out.push_back(Fit(name, width));
    alike[out.back()].insert(whole.back());
  }
  std::map<std::string, std::set<std::string>> taken;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::set<std::string>& group = alike.at(out[i]);
    if (group.size() > 1 && width >= kLeast) out[i] = FitAt(whole[i], PartingOf(group), width);
    std::set<std::string>& holders = taken[out[i]];
    holders.insert(whole[i]);
    if (holders.size() < 2) continue;
    const auto number = std::distance(holders.begin(), holders.find(whole[i])) + 1;
    const std::string mark = " #" + std::to_string(number);
    if (mark.size() < width) out[i] = out[i].substr(0, Prefix(out[i], width - mark.size())) + mark;
  }
  return out;
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
