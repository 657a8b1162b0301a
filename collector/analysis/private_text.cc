#include "collector/analysis/private_text.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsWord(char c) { return IsDigit(c) || IsUpper(c) || IsLower(c); }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
// What a mail address, a token or a path is made of; everything else parts them.
bool IsPart(char c) {
  return IsWord(c) || std::string_view("._%+-@/\\~=").find(c) != std::string_view::npos;
}

bool LooksLikeMail(std::string_view part) {
  const size_t at = part.find('@');
  if (at == 0 || at == std::string_view::npos || !IsWord(part[at - 1])) return false;
  const std::string_view host = part.substr(at + 1);
  const size_t dot = host.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || host.size() - dot < 3) return false;
  const auto is_letter = [](char c) { return IsUpper(c) || IsLower(c); };
  return std::all_of(host.begin() + static_cast<ptrdiff_t>(dot) + 1, host.end(), is_letter) &&
         host.find('@') == std::string_view::npos && host.find('/') == std::string_view::npos;
}

// How well-known services begin their keys.
constexpr std::array<std::string_view, 12> kTokenBegins = {"ghp_",   "gho_", "ghs_",  "github_pat_",
                                                           "glpat-", "sk-",  "xoxb-", "xoxp-",
                                                           "hf_",    "AKIA", "ASIA",  "eyJ"};
constexpr size_t kShortToken = 16;  // behind such a beginning
constexpr size_t kLongToken = 32;   // without one: shorter words mix letters and digits too

bool LooksLikeToken(std::string_view part) {
  const std::string_view value = part.substr(part.rfind('=') + 1);  // key=value
  for (const std::string_view begin : kTokenBegins) {
    if (value.starts_with(begin) && value.size() >= begin.size() + kShortToken) return true;
  }
  if (value.size() < kLongToken) return false;
  const auto count = [&](auto is) { return std::count_if(value.begin(), value.end(), is); };
  const auto size = static_cast<ptrdiff_t>(value.size());
  const auto digits = count(IsDigit);
  if (count(IsWord) != size || digits * 8 < size) return false;
  return count(IsHex) == size || (count(IsUpper) * 8 >= size && count(IsLower) * 8 >= size);
}

bool LooksLikePath(std::string_view part) {
  for (const std::string_view home : {"/home/", "/Users/", "/root/", "\\Users\\", "~/"}) {
    const size_t at = part.find(home);
    if (at != std::string_view::npos && part.size() > at + home.size()) return true;
  }
  return part.starts_with('/') && std::count(part.begin(), part.end(), '/') >= 3;
}

PrivateKind KindOf(std::string_view part) {
  if (LooksLikeMail(part)) return PrivateKind::kMail;
  if (LooksLikePath(part)) return PrivateKind::kPath;
  if (LooksLikeToken(part)) return PrivateKind::kToken;
  return PrivateKind::kNone;
}

}  // namespace

PrivateText FindPrivate(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    while (begin < name.size() && !IsPart(name[begin])) ++begin;
    size_t end = begin;
    while (end < name.size() && IsPart(name[end])) ++end;
    const std::string_view part = name.substr(begin, end - begin);
    if (const PrivateKind kind = KindOf(part); kind != PrivateKind::kNone) return {kind, part};
    begin = end;
  }
  return {};
}

std::string_view PrivateKindName(PrivateKind kind) {
  switch (kind) {
    case PrivateKind::kMail:
      return "a mail address";
    case PrivateKind::kToken:
      return "a token";
    case PrivateKind::kPath:
      return "a private path";
    default:
      return "nothing";
  }
}

std::string Masked(std::string_view text) {
  return fmt::format("{}… ({} bytes)", text.substr(0, 2), text.size());
}

}  // namespace stepagent::analysis
