#include "collector/cli/input_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "collector/spool/names.h"

namespace stepagent::cli {
namespace {

using namespace std::string_view_literals;

// A raw file's second frame begins within some kilobytes, should the first be damaged.
constexpr size_t kLookedAt = size_t{64} << 10;

struct Foreign {
  std::string_view magic;
  const char* what;
};
constexpr Foreign kForeign[] = {
    {"\x28\xb5\x2f\xfd"sv, "zstd: unpack it first"},
    {"PK\x03\x04"sv, "a zip archive: unpack it first"},
    {"\xfd"
     "7zXZ\0"sv,
     "xz: unpack it first"},
    {"BZh"sv, "bzip2: unpack it first"},
    {"\x04\x22\x4d\x18"sv, "lz4: unpack it first"},
    {"\xff\xfe"sv, "text in UTF-16; allowed: UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16; allowed: UTF-8"},
    {"SQLite format 3\0"sv, "an SQLite file, which is not read"},
};

// Behind a byte order mark and blanks.
bool IsJson(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && (text[at] == '{' || text[at] == '[');
}

bool IsWideText(std::string_view text) {
  return text.size() > 1 && ((text[0] == '\0' && (text[1] == '{' || text[1] == '[')) ||
                             ((text[0] == '{' || text[0] == '[') && text[1] == '\0'));
}

std::string WhyNot(std::string_view begin) {
  if (begin.empty()) return "empty";
  if (begin.find_first_not_of(" \t\r\n") == std::string_view::npos) return "holds blanks alone";
  if (IsWideText(begin)) return "text in UTF-16; allowed: UTF-8";
  for (const Foreign& foreign : kForeign) {
    if (begin.starts_with(foreign.magic)) return foreign.what;
  }
  return "neither a raw.steps nor a trace in JSON (plain or gzip)";
}

}  // namespace

InputKind KindOfFile(const std::string& path, std::string* why) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    *why = path + ": no regular file; allowed: a file that can be read from its begin again";
    return InputKind::kNone;
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    *why = path + ": cannot open: " + std::strerror(errno);
    return InputKind::kNone;
  }
  std::string bytes(kLookedAt, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const std::string_view begin(bytes.data(), static_cast<size_t>(file.gcount()));
  const bool is_gzip = begin.starts_with("\x1f\x8b");
  if (is_gzip || (IsJson(begin) && !IsWideText(begin))) return InputKind::kJson;
  const bool is_ours = std::filesystem::path(path).filename() == spool::kRawName;
  if (!begin.empty() && (is_ours || begin.find("SAF1") != std::string_view::npos)) {
    return InputKind::kRaw;
  }
  *why = path + ": " + WhyNot(begin);
  return InputKind::kNone;
}

}  // namespace stepagent::cli
