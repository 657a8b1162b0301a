#include "collector/spool/names.h"

#include <cctype>
#include <cstdio>
#include <ctime>

#include "proto/crc32c.h"

namespace stepagent::spool {
namespace {

constexpr size_t kShortIdDigits = 8;
constexpr size_t kStampLength = 15;  // yyyymmddThhmmss

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string Number(const char* format, uint32_t value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string SafeName(std::string_view text, size_t longest) {
  std::string name;
  for (const char c : text.substr(0, longest)) {
    const bool is_safe =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    name += is_safe && static_cast<unsigned char>(c) < 0x80 ? c : '_';
  }
  if (name.empty()) return "unknown";
  if (name[0] == '.' || name[0] == '-') name[0] = '_';
  return name;
}

std::string ShortId(std::string_view id) {
  size_t digits = 0;
  while (digits < id.size() && IsHex(id[digits])) ++digits;
  if (digits >= kShortIdDigits) return std::string(id.substr(0, kShortIdDigits));
  return Number("%08x", proto::Crc32c(id.data(), id.size()));
}

bool IsRunName(std::string_view name) {
  if (name.size() != kStampLength + 1 + kShortIdDigits) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_right = i == 8              ? name[i] == 'T'
                          : i < kStampLength  ? IsDigit(name[i])
                          : i == kStampLength ? name[i] == '_'
                                              : IsHex(name[i]);
    if (!is_right) return false;
  }
  return true;
}

std::string RunName(const std::string& run_dir, const std::string& run_id, int64_t now_unix_ns) {
  // OUT/latest is the link to the newest run; no agent of ours asks for that name.
  if (!run_dir.empty() && run_dir != "latest") return SafeName(run_dir, 200);
  if (IsRunName(run_id)) return run_id;
  const std::time_t seconds = now_unix_ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", &utc);
  return std::string(stamp) + "_" + ShortId(run_id);
}

std::string SessionName(const model::SessionInfo& s) {
  return SafeName(s.exe) + "_rank" + std::to_string(s.rank) + "_" + SafeName(s.host) + "_" +
         std::to_string(s.pid) + "_" + ShortId(s.id);
}

std::string CycleName(uint32_t cycle) { return Number("cycle-%04u", cycle); }

std::string TraceStem(const model::SessionInfo& s, bool with_pid, uint32_t cycle) {
  std::string stem = SafeName(s.exe) + "_" + SafeName(s.host) + "_rank" + std::to_string(s.rank);
  if (with_pid) stem += "_" + std::to_string(s.pid);
  return stem + Number(".%04u", cycle);
}

}  // namespace stepagent::spool
