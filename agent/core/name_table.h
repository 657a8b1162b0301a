#pragma once
// NameTable: text to small ids, by content.
//
// Purpose: a record carries a NameId; the text is kept once. Frameworks pass temporaries, so the
// key is the bytes, never the pointer.
// Thread rule: Intern from any thread, lock-free (one hash, a probe, rarely a CAS); Text from any
// thread for ids it has seen published.
// Failure rule: a full table or arena gives kOverflowName; the count of refusals is kept. Names
// longer than 4 KiB are cut and end in "…#" and 16 hex digits of the whole text's hash, so two that
// differ only at the end stay apart (counted as truncated).
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepagent::core {

using NameId = uint32_t;  // 0 none, 1 overflow (proto/limits.h)
inline constexpr NameId kNoName = 0;
inline constexpr NameId kOverflowNameId = 1;
inline constexpr uint32_t kMaxNames = 1U << 20;  // every NameId is below it

// One code point as UTF-8 into `out` (4 bytes); what is none becomes U+FFFD. Returns the bytes.
size_t EncodeUtf8(uint32_t code, char* out) noexcept;

class NameTable {
 public:
  // Maps the table and the text arena (lazily touched); any thread, any number of times. False:
  // every Intern gives overflow.
  [[nodiscard]] static bool Init() noexcept;
  [[nodiscard]] static NameId Intern(const char* text, size_t bytes) noexcept;
  // The same for a NUL-terminated text, quicker where the same pointer came before: what it was
  // then is compared with what it is now, so the answer is still by content.
  [[nodiscard]] static NameId InternText(const char* text) noexcept;
  [[nodiscard]] static NameId Intern(std::string_view text) noexcept {
    return Intern(text.data(), text.size());
  }
  // nullptr is 0 (no name), "" a name of its own.
  [[nodiscard]] static NameId InternWide(const wchar_t* text) noexcept;  // converted to UTF-8
  [[nodiscard]] static std::string_view Text(NameId id) noexcept;        // "" unknown
  // Per-name counter (how often a range was begun while kBitCountNames was set).
  static void Count(NameId id) noexcept;
  [[nodiscard]] static uint64_t CountOf(NameId id) noexcept;
  [[nodiscard]] static uint32_t size() noexcept;  // ids below it may have been given out
  [[nodiscard]] static uint64_t overflowed() noexcept;
  [[nodiscard]] static uint64_t truncated() noexcept;
};

}  // namespace stepagent::core
