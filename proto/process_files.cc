#include "proto/process_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace stepagent::proto {
namespace {

constexpr size_t kChunkBytes = 4096;

}  // namespace

std::string_view Variable(char* const* environment, std::string_view name) {
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry(*e);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

std::string ReadFile(const std::string& path, size_t most) {
  std::string out;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return out;
  size_t used = 0;
  while (used < most) {
    out.resize(std::min(most, used + kChunkBytes));
    const ssize_t n = read(fd, out.data() + used, out.size() - used);
    if (n <= 0) break;
    used += static_cast<size_t>(n);
  }
  close(fd);
  out.resize(used);
  return out;
}

uint64_t StatField(const std::string& stat, int wanted) {
  // The name in field 2 may hold spaces, so count from the last ')'.
  size_t at = stat.rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = 2; field < wanted; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return 0;
  }
  uint64_t value = 0;
  std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), value);
  return value;
}

std::string Hex(uint64_t value, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, value >>= 4)
    out[static_cast<size_t>(i)] = kDigits[value & 15];
  return out;
}

}  // namespace stepagent::proto
