#include <algorithm>

#include "proto/settings.h"
#include "proto/settings_table.h"

namespace stepagent::proto {
namespace {

constexpr size_t kMaxRanks = 65536;
constexpr const char* kActivityNames[] = {"",     "kernel", "memcpy", "memset",  "launch",
                                          "sync", "nvtx",   "memory", "overhead"};
constexpr uint32_t kActivityCount = 9;
constexpr uint32_t kDefaultActivities = ActivityBit(1) | ActivityBit(2) | ActivityBit(3) |
                                        ActivityBit(4) | ActivityBit(5) | ActivityBit(6) |
                                        ActivityBit(8);

// Words of a closed list, each at most once. `later` are words that a later version takes.
bool WordList(std::string_view value, const std::vector<std::string_view>& known,
              const std::vector<std::string_view>& later, std::vector<std::string>* out,
              std::string* why) {
  std::vector<std::string> words;
  for (const std::string_view word : SplitCommas(value)) {
    if (std::find(later.begin(), later.end(), word) != later.end())
      return Fail(why, Quoted(word) + " comes in a later version");
    if (std::find(known.begin(), known.end(), word) == known.end())
      return Fail(why, word.empty() ? "an empty entry" : Quoted(word) + " is not known");
    if (std::find(words.begin(), words.end(), word) != words.end())
      return Fail(why, Quoted(word) + " is given twice");
    words.emplace_back(word);
  }
  *out = std::move(words);
  return true;
}

std::optional<uint32_t> ActivityNumber(std::string_view name) {
  for (uint32_t i = 1; i < kActivityCount; ++i)
    if (name == kActivityNames[i]) return i;
  return std::nullopt;
}

// A list of names, or of +name and -name on top of `base`; `none` alone is the empty set.
bool ActivityList(std::string_view value, uint32_t base, bool allow_signs, uint32_t* out,
                  std::string* why) {
  if (value == "none") {
    *out = 0;
    return true;
  }
  const bool is_signed = allow_signs && !value.empty() && (value[0] == '+' || value[0] == '-');
  uint32_t bits = is_signed ? base : 0, seen = 0;
  for (std::string_view word : SplitCommas(value)) {
    const char sign = word.empty() ? '\0' : word[0];
    const bool has_sign = allow_signs && (sign == '+' || sign == '-');
    if (has_sign) word.remove_prefix(1);
    const auto activity = ActivityNumber(word);
    if (!activity)
      return Fail(why, word.empty() ? "an empty entry" : Quoted(word) + " is not known");
    if (has_sign != is_signed) return Fail(why, "names and +x,-y cannot be mixed");
    if (seen & ActivityBit(*activity)) return Fail(why, Quoted(word) + " is given twice");
    seen |= ActivityBit(*activity);
    bits = sign == '-' ? bits & ~ActivityBit(*activity) : bits | ActivityBit(*activity);
  }
  *out = bits;
  return true;
}

}  // namespace

const char* ActivityText(uint32_t activity) {
  return activity < kActivityCount ? kActivityNames[activity] : "";
}

bool ParseFormatsInto(std::string_view value, Settings* settings, std::string* why) {
  return WordList(value, {"chrome", "perfetto", "sqlite", "html", "folded", "pprof"}, {},
                  &settings->formats, why);
}

bool ParseActivitiesInto(std::string_view value, Settings* settings, std::string* why) {
  return ActivityList(value, kDefaultActivities, true, &settings->activities, why);
}

bool ParseRequireInto(std::string_view value, Settings* settings, std::string* why) {
  return ActivityList(value, 0, false, &settings->require, why);
}

bool ParseLabelsInto(std::string_view value, Settings* settings, std::string* why) {
  std::map<std::string, std::string> labels;
  if (value == "none") {
    settings->labels.clear();
    return true;
  }
  for (bool more = true; more;) {
    std::string entry;
    if (!TakeEscaped(&value, ',', &more, &entry)) return Fail(why, "\\ escapes only , and \\");
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return Fail(why, Quoted(entry) + " is not K=V");
    const std::string key = entry.substr(0, equals), text = entry.substr(equals + 1);
    if (ValidUtf8(entry) != entry ||
        std::any_of(entry.begin(), entry.end(), [](unsigned char c) { return c < 32 || c == 127; }))
      return Fail(why, Quoted(entry) + " holds control bytes or is not UTF-8");
    if (key == "samples_per_step" && WholeNumber(text).value_or(0) == 0)
      return Fail(why, "samples_per_step must be a whole number above 0");
    if (!labels.emplace(key, text).second) return Fail(why, Quoted(key) + " is given twice");
  }
  for (auto& [key, text] : labels) settings->labels[key] = text;
  return true;
}

bool ParseRedactInto(std::string_view value, Settings* settings, std::string* why) {
  if (value == "none") {
    settings->redact.clear();
    return true;
  }
  return WordList(value, {"paths", "names", "args", "hosts"}, {}, &settings->redact, why);
}

bool ParseRanksInto(std::string_view value, Settings* settings, std::string* why) {
  if (value == "all") {
    settings->ranks.reset();
    return true;
  }
  std::vector<uint32_t> ranks;
  for (const std::string_view part : SplitCommas(value)) {
    const size_t dash = part.find('-');
    const auto first = WholeNumber(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : WholeNumber(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last > INT32_MAX)
      return Fail(why, Quoted(part) + " is no rank and no range of ranks");
    if (*last - *first >= kMaxRanks - ranks.size()) return Fail(why, "more than 65536 ranks");
    for (uint64_t rank = *first; rank <= *last; ++rank)
      ranks.push_back(static_cast<uint32_t>(rank));
  }
  std::sort(ranks.begin(), ranks.end());
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
    return Fail(why, "a rank is given twice");
  settings->ranks = std::move(ranks);
  return true;
}

}  // namespace stepagent::proto
