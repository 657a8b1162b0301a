#include "agent/nvtx/glob.h"

#include <cstring>

namespace stepagent::nvtx {
namespace {

uint32_t CountTokens(std::string_view pattern) {
  uint32_t tokens = 0;
  for (char c : pattern) tokens += c != '*' ? 1 : 0;
  return tokens;
}

uint64_t Bit(uint32_t state) { return uint64_t{1} << (state % 64); }

}  // namespace

size_t Glob::TableBytes(std::string_view pattern) noexcept {
  const uint32_t tokens = CountTokens(pattern);
  if (tokens > kMaxTokens) return 0;
  return (tokens / 64 + 1) * sizeof(uint64_t) * (256 + 2);
}

void Glob::Compile(std::string_view pattern, void* memory) noexcept {
  words_ = 0;
  if (TableBytes(pattern) == 0) return;
  last_ = CountTokens(pattern);
  words_ = last_ / 64 + 1;
  accepts_ = static_cast<uint64_t*>(memory);
  stays_ = accepts_ + size_t{words_} * 256;
  skips_ = stays_ + words_;
  uint32_t state = 0;
  for (char c : pattern) {
    if (c == '*') {
      stays_[state / 64] |= Bit(state);
      continue;
    }
    uint64_t* row = accepts_ + size_t{state / 64} * 256;
    if (c == '?') {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        if ((byte & 0xC0U) != 0x80U) row[byte] |= Bit(state);  // the rest of a character: skips_
      }
      skips_[(state + 1) / 64] |= Bit(state + 1);
    } else {
      row[static_cast<unsigned char>(c)] |= Bit(state);
    }
    ++state;
  }
}

bool Glob::Matches(const char* text) const noexcept {
  if (words_ != 1) return Matches(std::string_view(text));
  uint64_t active = 1;
  for (; *text != '\0' && active != 0; ++text)
    active = Step(active, static_cast<unsigned char>(*text));
  return (active & Bit(last_)) != 0;
}

bool Glob::Matches(std::string_view text) const noexcept {
  if (words_ == 0) return false;
  Matcher matcher(*this);
  for (char c : text) {
    if (!matcher.Feed(static_cast<unsigned char>(c))) return false;
  }
  return matcher.IsMatch();
}

Glob::Matcher::Matcher(const Glob& glob) noexcept : glob_(glob) {
  std::memset(active_, 0, sizeof(uint64_t) * glob.words_);
  if (glob.words_ != 0) active_[0] = 1;
}

bool Glob::Matcher::Feed(unsigned char byte) noexcept {
  const bool is_continuation = (byte & 0xC0U) == 0x80U;
  uint64_t carry = 0, any = 0;
  for (uint32_t i = 0; i < glob_.words_; ++i) {
    const uint64_t moved = active_[i] & glob_.accepts_[size_t{i} * 256 + byte];
    uint64_t next = moved << 1 | carry | (active_[i] & glob_.stays_[i]);
    if (is_continuation) next |= active_[i] & glob_.skips_[i];
    carry = moved >> 63;
    active_[i] = next;
    any |= next;
  }
  return any != 0;
}

bool Glob::Matcher::IsMatch() const noexcept {
  return glob_.words_ != 0 && (active_[glob_.last_ / 64] & Bit(glob_.last_)) != 0;
}

}  // namespace stepagent::nvtx
