#pragma once
// HOT PATH A. StepPattern: is this text, in this domain, a step?
//
// Purpose: match by content for every string kind. Idle, a plain string is compared and falls out
// at its first byte nearly always; an interned name is one comparison of ids (exact) or one memo
// (glob).
// Thread rule: a pattern is immutable once published; Current() on any thread.
// Failure rule: no memory for a pattern: no step matches. A pattern is never freed: a
// reader may hold it, and a person sets few.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "agent/core/name_table.h"
#include "agent/nvtx/glob.h"
#include "agent/nvtx/nvtx_entry.h"

namespace stepagent::nvtx {

class StepPattern {
 public:
  // The pattern in force; nullptr: none.
  [[nodiscard]] static const StepPattern* Current() noexcept {
    return current_.load(std::memory_order_acquire);
  }
  static void Set(const StepMatch& match) noexcept;

  [[nodiscard]] bool is_glob() const noexcept { return is_glob_; }
  [[nodiscard]] bool MatchesDomain(core::NameId domain) const noexcept {
    return any_domain_ || domain == domain_;
  }
  // False for nearly every other name, at the cost of one byte.
  [[nodiscard]] bool MayMatch(const char* text) const noexcept {
    return text != nullptr && (any_first_ || *text == first_);
  }
  [[nodiscard]] bool MatchesText(const char* text) const noexcept {
    if (!MayMatch(text)) return false;
    return is_glob_ ? glob_.Matches(text) : std::strcmp(text, text_) == 0;
  }
  [[nodiscard]] bool MatchesWide(const wchar_t* text) const noexcept;
  [[nodiscard]] bool MatchesName(core::NameId name) const noexcept;

 private:
  [[nodiscard]] bool IsSame(const StepMatch& match) const noexcept;
  [[nodiscard]] static const StepPattern* Make(const StepMatch& match) noexcept;

  static std::atomic<const StepPattern*> current_ [[gnu::visibility("hidden")]];

  bool is_glob_ = false;
  bool any_first_ = false;  // the pattern begins with a wildcard, or is empty
  bool any_domain_ = false;
  char first_ = '\0';
  core::NameId name_ = core::kNoName;
  core::NameId domain_ = core::kNoName;
  uint32_t memo_mark_ = 0;  // tells this pattern's memos from older ones'
  const char* text_ = "";
  const char* domain_text_ = "";
  Glob glob_;
};

}  // namespace stepagent::nvtx
