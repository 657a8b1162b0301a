#include "agent/cupti/name_cache.h"

#include <cstring>
#include <string_view>

namespace stepagent::cupti {
namespace {

// strncmp stops at either end, so neither string is read past its own.
bool Matches(const char* name, std::string_view text) {
  return std::strncmp(name, text.data(), text.size()) == 0 && name[text.size()] == '\0';
}

}  // namespace

void NameCache::Clear() {
  for (Entry& entry : entries_) entry = Entry();
}

core::NameId NameCache::Compare(const char* name) {
  Entry& entry = entries_[Slot(name)];
  if (entry.name == name && Matches(name, core::NameTable::Text(entry.id))) {
    entry.checked_in = buffer_;
    return entry.id;
  }
  const core::NameId id = core::NameTable::Intern(name, strnlen(name, kLongestName));
  // 0 and 1 (none, overflow) have no text of their own to compare with.
  if (id > 1) entry = {name, id, buffer_};
  return id;
}

}  // namespace stepagent::cupti
