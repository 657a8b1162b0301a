#pragma once
// Numbers and names for people: three digits and a unit, plain text of a known width.
//
// Purpose: one way to print a duration, a size, a share and a foreign name, everywhere.
// Thread rule: free functions.
// Failure rule: cannot fail; what a terminal would act on is shown, never sent.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::analysis {

[[nodiscard]] std::string Duration(int64_t ns);   // 1.23 ms
[[nodiscard]] std::string Bytes(uint64_t bytes);  // 4.19 MB (powers of ten, as bandwidths are)
[[nodiscard]] std::string Count(uint64_t count);  // 12,345
[[nodiscard]] std::string Percent(double share);  // 12.3 %
// Text a terminal shows as it stands: control characters are '?', and what is not seen or turns the
// writing's direction (U+202E and its kin) is its escape, \u202e. Newlines stay if asked for.
[[nodiscard]] std::string Printable(std::string_view text, bool keeps_lines = false);
// One line of printable text, at most `width` columns; the middle of a longer name is left out.
[[nodiscard]] std::string Fit(std::string_view name, size_t width);
// A sentence: what is too long ends behind a whole word, with an ellipsis.
[[nodiscard]] std::string FitSentence(std::string_view text, size_t width);
// The same for names that stand below each other: two that would look alike once cut show where they
// differ, or a number.
[[nodiscard]] std::vector<std::string> FitApart(const std::vector<std::string>& names, size_t width);
// Columns a terminal needs: code points, which is exact for all but wide and combining characters.
[[nodiscard]] size_t Columns(std::string_view utf8);
[[nodiscard]] std::string PadRight(std::string text, size_t width);
[[nodiscard]] std::string PadLeft(std::string text, size_t width);
// A label and a paragraph broken at spaces, its further lines below its first.
[[nodiscard]] std::string Paragraph(std::string_view label, size_t label_width,
                                    std::string_view text, size_t width);

}  // namespace stepagent::analysis
