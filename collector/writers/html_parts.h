#pragma once
// The page's own files, embedded at build time (html/ and .cmake/EmbedText.cmake).
//
// Thread rule: constants. Failure rule: none.
#include <string_view>

namespace stepagent::writers::html {

extern const std::string_view kPage;    // the skeleton with @NAME@ where something goes
extern const std::string_view kStyle;   // page.css
extern const std::string_view kScript;  // the .js files, one after the other

}  // namespace stepagent::writers::html
