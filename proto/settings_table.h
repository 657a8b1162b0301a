#pragma once
// The rows behind settings.h: what the parser, the canonical text and the documentation share.
//
// Purpose: one row per setting joins its words with its two functions, so that adding a setting is
// adding a row. Private to proto/settings*.cc.
// Thread rule: constants and pure functions.
// Failure rule: a parse function returns false, leaves the Settings alone and says why.
#include <string>
#include <string_view>
#include <vector>

#include "proto/settings.h"

namespace stepagent::proto {

struct SettingRow {
  SettingSpec spec;
  bool (*parse)(std::string_view value, Settings* settings, std::string* why);
  std::string (*text)(const Settings& settings);
};
[[nodiscard]] const std::vector<SettingRow>& SettingRows();

// settings_parse.cc: one function per row that is more than a word or a number.
bool ParseScheduleInto(std::string_view value, Settings* settings, std::string* why);
bool ParseStepInto(std::string_view value, Settings* settings, std::string* why);
bool ParseSignalInto(std::string_view value, Settings* settings, std::string* why);
bool ParseFormatsInto(std::string_view value, Settings* settings, std::string* why);
bool ParseActivitiesInto(std::string_view value, Settings* settings, std::string* why);
bool ParseRequireInto(std::string_view value, Settings* settings, std::string* why);
bool ParseLabelsInto(std::string_view value, Settings* settings, std::string* why);
bool ParseRedactInto(std::string_view value, Settings* settings, std::string* why);
bool ParseRanksInto(std::string_view value, Settings* settings, std::string* why);
bool ParseCollectorInto(std::string_view value, Settings* settings, std::string* why);
bool ParseLogInto(std::string_view value, Settings* settings, std::string* why);

// settings_parse.cc: what the lists share with it.
[[nodiscard]] std::vector<std::string_view> SplitCommas(std::string_view text);
[[nodiscard]] std::optional<uint64_t> WholeNumber(std::string_view text);
// Takes the text up to the next `stop` that no backslash escapes; `\stop` and `\\` lose theirs.
// False: a backslash before anything else, or at the end.
[[nodiscard]] bool TakeEscaped(std::string_view* text, char stop, bool* stopped, std::string* out);
bool Fail(std::string* why, std::string text);
[[nodiscard]] std::string Quoted(std::string_view text);

// settings_text.cc
[[nodiscard]] std::string JoinWords(const std::vector<std::string>& words);
[[nodiscard]] std::string ActivitiesText(uint32_t bits);
[[nodiscard]] std::string LabelsText(const Settings& settings);
[[nodiscard]] std::string RanksText(const Settings& settings);
[[nodiscard]] std::string LogText(const Settings& settings);
[[nodiscard]] std::string DurationText(uint64_t ns);
[[nodiscard]] std::string CountText(uint64_t count);  // 50M
[[nodiscard]] std::string BytesText(uint64_t bytes);  // 2GiB
// The text as one printable line of at most `limit` bytes: control bytes and bytes that are no
// UTF-8 become '?', a cut one ends in "…".
[[nodiscard]] std::string Printable(std::string_view text, size_t limit);
[[nodiscard]] std::string ValidUtf8(std::string_view text);

}  // namespace stepagent::proto
