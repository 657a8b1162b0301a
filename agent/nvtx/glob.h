#pragma once
// HOT PATH A. Glob: `*` any run, `?` one character.
//
// Purpose: match in time linear in the text whatever the pattern, since both come from outside: the
// pattern is a row of states kept as bits, and one pass over the text moves all of them at once.
// Thread rule: Compile once, then read-only; a matcher is on its caller's stack.
// Failure rule: a pattern of more than kMaxTokens characters besides `*` never matches.
//
// State i is active when the first i tokens have matched. A star before token i keeps state i
// active; a `?` matches a whole UTF-8 character, so the state behind it stays active over
// continuation bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepagent::nvtx {

class Glob {
 public:
  static constexpr uint32_t kMaxTokens = 4095;
  static constexpr uint32_t kMaxWords = (kMaxTokens + 1) / 64;

  // Bytes of tables a pattern needs, and the same tables filled at `memory` (zeroed, 8-aligned).
  [[nodiscard]] static size_t TableBytes(std::string_view pattern) noexcept;
  void Compile(std::string_view pattern, void* memory) noexcept;
  [[nodiscard]] bool Matches(const char* text) const noexcept;  // NUL-terminated
  [[nodiscard]] bool Matches(std::string_view text) const noexcept;

  // Fed a byte at a time, for text that is converted on the way.
  class Matcher {
   public:
    explicit Matcher(const Glob& glob) noexcept;
    // False: no continuation can match.
    bool Feed(unsigned char byte) noexcept;
    [[nodiscard]] bool IsMatch() const noexcept;

   private:
    const Glob& glob_;
    uint64_t active_[kMaxWords];
  };

 private:
  [[nodiscard]] uint64_t Step(uint64_t active, unsigned char byte) const noexcept {
    uint64_t next = (active & accepts_[byte]) << 1 | (active & stays_[0]);
    if ((byte & 0xC0U) == 0x80U) next |= active & skips_[0];
    return next;
  }

  uint32_t words_ = 0;           // 0: never matches
  uint32_t last_ = 0;            // the accepting state
  uint64_t* accepts_ = nullptr;  // [word * 256 + byte]: states whose token takes the byte
  uint64_t* stays_ = nullptr;    // states with a star before their token
  uint64_t* skips_ = nullptr;    // states right behind a `?`
};

}  // namespace stepagent::nvtx
