#pragma once
// Text of unknown origin as a JSON string.
//
// Purpose: the one place where names, titles and paths become JSON. Input is bytes: control
// characters, quotes and backslashes are escaped, invalid UTF-8 becomes U+FFFD, all else is kept.
// Thread rule: free functions.
// Failure rule: cannot fail.
#include <string>
#include <string_view>

namespace stepagent::writers {

// With the quotes.
void AppendJsonString(std::string& out, std::string_view bytes);
[[nodiscard]] std::string JsonString(std::string_view bytes);
// The same repair without escaping, for text that another encoder will quote.
// Length of the well-formed sequence at `at`: no surrogates, no overlong forms, nothing above
// U+10FFFF; 0 where there is none.
[[nodiscard]] size_t Utf8SequenceLength(std::string_view text, size_t at);
[[nodiscard]] std::string ValidUtf8(std::string_view bytes);

}  // namespace stepagent::writers
