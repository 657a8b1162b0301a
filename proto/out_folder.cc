#include "proto/out_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace stepagent::proto {

std::string ExistingFolder(const std::string& path) {
  struct stat st {};
  std::string folder = path;
  while (folder != "/" && lstat(folder.c_str(), &st) != 0) {
    const size_t slash = folder.rfind('/');
    folder = slash == 0 || slash == std::string::npos ? "/" : folder.substr(0, slash);
  }
  return folder;
}

bool IsFolder(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::string WhyNotCreatable(const std::string& out) {
  const std::string existing = ExistingFolder(out);
  std::string probe = existing + "/.stepagent-probe-XXXXXX";
  int error = mkdtemp(probe.data()) == nullptr ? errno : 0;
  if (error == 0) rmdir(probe.c_str());
  if (error == 0 && existing == out && !IsFolder(out)) error = ENOTDIR;
  struct stat st {};
  const bool is_absent = error == 0 && lstat(out.c_str(), &st) != 0;
  if (is_absent && errno != ENOENT) error = errno;  // a name that is too long, for instance
  if (error == 0) return {};
  char text[128];
  return out + ": cannot be created: " + existing + ": " + strerror_r(error, text, sizeof text);
}

std::string OutFolderCure() {
  return "--out DIR (STEPAGENT_OUT=DIR) with a folder that user " + std::to_string(geteuid()) +
         " can write to";
}

}  // namespace stepagent::proto
