#pragma once
// Foreign text inside a page: in an element, in a data block, and cut to a length one can load.
//
// Purpose: the one place where bytes of unknown origin become HTML. Thread rule: free functions.
// Failure rule: cannot fail; bytes that are no UTF-8 become U+FFFD.
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace stepagent::writers {

// Element content and attribute values: & < > " ' as references.
[[nodiscard]] std::string HtmlText(std::string_view bytes);
// JSON as the content of <script type="application/json">: a '<' can only be inside a string there,
// where its escape means the same, so no name can end the element.
[[nodiscard]] std::string ScriptSafe(std::string json);
// Names beyond kNameBytes keep their ends, their length and a hash: different ones stay different.
inline constexpr size_t kNameBytes = 4096;
[[nodiscard]] std::string ShortenedName(std::string_view bytes);
// Every string of a document.
void ShortenStrings(nlohmann::ordered_json& document);
// 'sha256-…' as a content security policy names a script or style.
[[nodiscard]] std::string PolicyHash(std::string_view content);

}  // namespace stepagent::writers
