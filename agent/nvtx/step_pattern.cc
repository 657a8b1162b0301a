#include "agent/nvtx/step_pattern.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

#include "agent/nvtx/storage.h"

namespace stepagent::nvtx {
namespace {

constinit std::atomic<uint32_t> patterns_made{0};

// Feeds the UTF-8 form of a wide text to `each(byte)` until that says false.
template <typename Each>
bool ForEachByte(const wchar_t* text, Each&& each) {
  for (; *text != L'\0'; ++text) {
    char encoded[4];
    const size_t count = core::EncodeUtf8(static_cast<uint32_t>(*text), encoded);
    for (size_t i = 0; i < count; ++i) {
      if (!each(static_cast<unsigned char>(encoded[i]))) return false;
    }
  }
  return true;
}

}  // namespace

constinit std::atomic<const StepPattern*> StepPattern::current_{nullptr};

bool StepPattern::IsSame(const StepMatch& match) const noexcept {
  return is_glob_ == (match.kind == StepMatch::Kind::kGlob) && any_domain_ == match.any_domain &&
         std::strcmp(text_, match.name) == 0 && std::strcmp(domain_text_, match.domain) == 0;
}

void StepPattern::Set(const StepMatch& match) noexcept {
  if (match.kind == StepMatch::Kind::kNone) {
    current_.store(nullptr, std::memory_order_release);
    return;
  }
  const StepPattern* now = Current();
  if (now != nullptr && now->IsSame(match)) return;
  current_.store(Make(match), std::memory_order_release);
}

const StepPattern* StepPattern::Make(const StepMatch& match) noexcept {
  const int saved = errno;
  const size_t text_bytes = std::strlen(match.name) + 1;
  const size_t domain_bytes = std::strlen(match.domain) + 1;
  const bool is_glob = match.kind == StepMatch::Kind::kGlob;
  const size_t table_bytes = is_glob ? Glob::TableBytes(match.name) : 0;
  const size_t head = (sizeof(StepPattern) + 63) & ~size_t{63};
  void* memory = mmap(nullptr, head + table_bytes + text_bytes + domain_bytes,
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  errno = saved;
  if (memory == MAP_FAILED) return nullptr;
  auto* pattern = new (memory) StepPattern;
  char* tables = static_cast<char*>(memory) + head;
  char* text = tables + table_bytes;
  std::memcpy(text, match.name, text_bytes);
  std::memcpy(text + text_bytes, match.domain, domain_bytes);
  pattern->text_ = text;
  pattern->domain_text_ = text + text_bytes;
  pattern->is_glob_ = is_glob;
  pattern->any_domain_ = match.any_domain;
  pattern->first_ = match.name[0];
  pattern->any_first_ = is_glob && (match.name[0] == '*' || match.name[0] == '?');
  pattern->memo_mark_ = (patterns_made.fetch_add(1, std::memory_order_relaxed) + 1) << 2;
  if (is_glob) {
    pattern->glob_.Compile(match.name, tables);
  } else {
    pattern->name_ = core::NameTable::Intern(std::string_view(match.name));
  }
  if (!match.any_domain && match.domain[0] != '\0') {
    pattern->domain_ = core::NameTable::Intern(std::string_view(match.domain));
  }
  return pattern;
}

bool StepPattern::MatchesWide(const wchar_t* text) const noexcept {
  if (text == nullptr) return false;
  if (is_glob_) {
    Glob::Matcher matcher(glob_);
    return ForEachByte(text, [&matcher](unsigned char byte) { return matcher.Feed(byte); }) &&
           matcher.IsMatch();
  }
  const char* at = text_;
  return ForEachByte(text,
                     [&at](unsigned char byte) {
                       return *at != '\0' && static_cast<unsigned char>(*at++) == byte;
                     }) &&
         *at == '\0';
}

bool StepPattern::MatchesName(core::NameId name) const noexcept {
  if (name <= core::kOverflowNameId) return false;
  if (!is_glob_) return name == name_;
  // Memo: mark | 2 | answer. A word of another pattern is as good as none.
  std::atomic<uint32_t>& memo = g_storage.string_memo[name];
  const uint32_t known = memo.load(std::memory_order_relaxed);
  if ((known & ~1U) == (memo_mark_ | 2U)) return (known & 1U) != 0;
  const bool is_match = glob_.Matches(core::NameTable::Text(name));
  memo.store(memo_mark_ | 2U | (is_match ? 1U : 0U), std::memory_order_relaxed);
  return is_match;
}

}  // namespace stepagent::nvtx
