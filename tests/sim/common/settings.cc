#include "common/settings.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

namespace stepagent::sim {
namespace {

constexpr const char* kPrefix = "STEPAGENT_SIM_";

const std::map<std::string, std::string>& FileSettings() {
  // Leaked: settings are read until the last exit handler.
  static const auto* settings = [] {
    auto* map = new std::map<std::string, std::string>;
    const char* path = getenv("STEPAGENT_SIM_CONFIG");
    if (path == nullptr || *path == '\0') return map;
    std::ifstream in(path);
    if (!in) Violation("STEPAGENT_SIM_CONFIG=%s cannot be read", path);
    std::string line;
    while (std::getline(in, line)) {
      const size_t equals = line.find('=');
      if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
      (*map)[line.substr(0, equals)] = line.substr(equals + 1);
    }
    return map;
  }();
  return *settings;
}

bool Find(const char* key, std::string* value) {
  const std::string name = std::string(kPrefix) + key;
  if (const char* text = getenv(name.c_str()); text != nullptr) {
    *value = text;
    return true;
  }
  const auto& file = FileSettings();
  const auto found = file.find(key);
  if (found == file.end()) return false;
  *value = found->second;
  return true;
}

int64_t UnitFactor(const char* key, const char* unit) {
  if (*unit == '\0' || strcmp(unit, "ns") == 0) return 1;
  if (strcmp(unit, "us") == 0) return 1000;
  if (strcmp(unit, "ms") == 0) return 1000000;
  if (strcmp(unit, "s") == 0) return 1000000000;
  Violation("%s%s: unknown unit '%s' (ns, us, ms, s)", kPrefix, key, unit);
}

}  // namespace

std::string SettingText(const char* key, const char* fallback) {
  std::string value;
  return Find(key, &value) ? value : fallback;
}

int64_t SettingInt(const char* key, int64_t fallback) {
  std::string value;
  if (!Find(key, &value) || value.empty()) return fallback;
  errno = 0;
  char* end = nullptr;
  const int64_t number = strtoll(value.c_str(), &end, 0);
  if (errno != 0 || end == value.c_str()) {
    Violation("%s%s=%s is not a number", kPrefix, key, value.c_str());
  }
  return number * UnitFactor(key, end);
}

double SettingReal(const char* key, double fallback) {
  std::string value;
  if (!Find(key, &value) || value.empty()) return fallback;
  char* end = nullptr;
  const double number = strtod(value.c_str(), &end);
  if (end == value.c_str() || *end != '\0') {
    Violation("%s%s=%s is not a number", kPrefix, key, value.c_str());
  }
  return number;
}

bool SettingFlag(const char* key, bool fallback) { return SettingInt(key, fallback ? 1 : 0) != 0; }

std::string ExpandPath(const std::string& path) {
  std::string out = path;
  const size_t at = out.find("%p");
  if (at != std::string::npos) out.replace(at, 2, std::to_string(getpid()));
  return out;
}

bool MatchesGlob(const char* pattern, const char* text) {
  const char* star = nullptr;
  const char* retry = nullptr;
  while (*text != '\0') {
    if (*pattern == '*') {
      star = ++pattern;
      retry = text;
    } else if (*pattern == '?' || *pattern == *text) {
      ++pattern;
      ++text;
    } else if (star != nullptr) {
      pattern = star;
      text = ++retry;
    } else {
      return false;
    }
  }
  while (*pattern == '*') ++pattern;
  return *pattern == '\0';
}

void Violation(const char* format, ...) {
  char text[512] = "stepagent-sim: ";
  const size_t start = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + start, sizeof(text) - start - 2, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(134);
  abort();
}

}  // namespace stepagent::sim
