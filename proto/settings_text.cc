#include <algorithm>

#include "proto/settings.h"
#include "proto/settings_table.h"

namespace stepagent::proto {
namespace {

// Bytes of the valid UTF-8 sequence at the front of `text`, 0 when there is none.
size_t Utf8Bytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char c = at(0);
  if (c < 0x80) return 1;
  const size_t n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
  if (c < 0xC2 || c > 0xF4 || text.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates and what lies above U+10FFFF.
  if ((c == 0xE0 && at(1) < 0xA0) || (c == 0xED && at(1) > 0x9F) || (c == 0xF0 && at(1) < 0x90) ||
      (c == 0xF4 && at(1) > 0x8F))
    return 0;
  return n;
}

std::string Escaped(std::string_view text, char special) {
  std::string out;
  for (const char c : text) {
    if (c == special || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

struct TextUnit {
  uint64_t scale;
  const char* name;
};

// In the largest unit (the table begins with it) that divides the value.
template <size_t N>
std::string InUnits(uint64_t value, const TextUnit (&units)[N]) {
  if (value == 0) return "0";
  for (const TextUnit& unit : units)
    if (value % unit.scale == 0) return std::to_string(value / unit.scale) + unit.name;
  return std::to_string(value);
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = Utf8Bytes(text);
    if (n == 0)
      out += "\xEF\xBF\xBD";
    else
      out += text.substr(0, n);
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out;
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out;
  while (!text.empty()) {
    const size_t n = Utf8Bytes(text);
    if (out.size() + std::max<size_t>(n, 1) > limit) return out + "…";
    const auto c = static_cast<unsigned char>(text[0]);
    // C1 controls (C2 80 … C2 9F) move a terminal's cursor too.
    const bool is_c1 = n == 2 && c == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (n == 0 || c < 32 || c == 127 || is_c1)
      out.push_back('?');
    else
      out += text.substr(0, n);
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out;
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out.empty() ? "none" : out;
}

std::string ActivitiesText(uint32_t bits) {
  std::vector<std::string> words;
  for (uint32_t i = 1; *ActivityText(i) != '\0'; ++i)
    if (bits & ActivityBit(i)) words.emplace_back(ActivityText(i));
  return JoinWords(words);
}

std::string LabelsText(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, text] : settings.labels) words.push_back(Escaped(key + "=" + text, ','));
  return JoinWords(words);
}

std::string RanksText(const Settings& settings) {
  if (!settings.ranks) return "all";
  const std::vector<uint32_t>& ranks = *settings.ranks;
  std::vector<std::string> words;
  for (size_t i = 0, last; i < ranks.size(); i = last + 1) {
    last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    words.push_back(std::to_string(ranks[i]));
    if (last > i) words.back() += "-" + std::to_string(ranks[last]);
  }
  return JoinWords(words);
}

std::string LogText(const Settings& settings) {
  constexpr const char* kLevels[] = {"off", "error", "warn", "info", "debug"};
  const std::string level = kLevels[static_cast<size_t>(settings.log_level)];
  return settings.log_file.empty() ? level : level + ":" + settings.log_file;
}

std::string DurationText(uint64_t ns) {
  constexpr TextUnit kUnits[] = {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}, {1, "ns"}};
  return InUnits(ns, kUnits);
}

std::string CountText(uint64_t count) {
  constexpr TextUnit kUnits[] = {{1'000'000'000, "G"}, {1'000'000, "M"}};
  return InUnits(count, kUnits);
}

std::string BytesText(uint64_t bytes) {
  constexpr TextUnit kUnits[] = {{1ULL << 30, "GiB"}, {1ULL << 20, "MiB"}, {1ULL << 10, "KiB"}};
  return InUnits(bytes, kUnits);
}

std::string ScheduleSetting::Text() const {
  return "skip_first=" + std::to_string(skip_first) + ",wait=" + std::to_string(wait) +
         ",warmup=" + std::to_string(warmup) + ",active=" + std::to_string(active) +
         ",repeat=" + std::to_string(repeat) + ",skip_first_wait=" + (skip_first_wait ? "1" : "0");
}

std::string StepSetting::Text() const {
  switch (kind) {
    case Kind::kUnset:
    case Kind::kNone:
      return "none";
    case Kind::kSignal:
      return "signal";
    case Kind::kEvery:
      return "every:" + DurationText(every_ns);
    case Kind::kNvtx:
    case Kind::kNvtxGlob:
      break;
  }
  std::string text = kind == Kind::kNvtx ? "nvtx:" : "nvtx-glob:";
  text += Escaped(name, '@');
  if (any_domain) return text + "@*";
  return domain.empty() ? text : text + "@" + Escaped(domain, '@');
}

std::map<std::string, std::string> SettingsText(const Settings& settings) {
  std::map<std::string, std::string> texts;
  for (const SettingRow& row : SettingRows())
    texts.emplace(row.spec.flag + 2, ValidUtf8(row.text(settings)));
  return texts;
}

}  // namespace stepagent::proto
