#pragma once
// Text that a person would not want in a file that is passed on.
//
// Purpose: finds what looks like a mail address, a token or a private path in the names an
// application gives its ranges. A guess by shape, made to be checked by a person.
// Thread rule: pure functions.
// Failure rule: cannot fail; time is linear in the text, whatever it holds.
#include <cstdint>
#include <string>
#include <string_view>

namespace stepagent::analysis {

enum class PrivateKind : uint8_t { kNone, kMail, kToken, kPath };

struct PrivateText {
  PrivateKind kind = PrivateKind::kNone;
  std::string_view text;  // the part of the name that looks so
};

// The first such part of a name.
[[nodiscard]] PrivateText FindPrivate(std::string_view name);
[[nodiscard]] std::string_view PrivateKindName(PrivateKind kind);
// Its first two bytes and its length: enough to find it, too little to pass it on.
[[nodiscard]] std::string Masked(std::string_view text);

}  // namespace stepagent::analysis
