#include "collector/launch/library.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace stepagent::launch {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string Absolute(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (!real) return "";
  std::string result = real;
  free(real);
  return result;
}

// FNV-1a: one name per folder, so that runs share the link and none is left over per run.
std::string FolderHash(std::string_view text) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  char hex[17];
  for (int i = 15; i >= 0; --i, hash >>= 4) hex[i] = "0123456789abcdef"[hash & 15];
  return std::string(hex, 16);
}

bool IsPrivate(const std::string& folder) {
  struct stat st {};
  return lstat(folder.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
         (st.st_mode & 022) == 0;
}

// Runtime folders first; the temporary one only where none of them is usable.
std::string PrivateFolder(const proto::RuntimeDirs& dirs) {
  const std::string runtime = proto::SocketFolder(dirs);
  if (IsPreloadable(runtime) && proto::EnsureSocketFolder(runtime) && IsPrivate(runtime))
    return runtime;
  const char* tmp = getenv("TMPDIR");
  for (const std::string& base : {std::string(tmp ? tmp : ""), std::string("/tmp")}) {
    if (base.empty() || base[0] != '/' || !IsPreloadable(base)) continue;
    std::string folder = base + "/stepagent-" + std::to_string(geteuid());
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) continue;
    if (IsPrivate(folder)) return folder;
  }
  return "";
}

bool PointsTo(const std::string& link, const std::string& target) {
  char text[PATH_MAX];
  const ssize_t n = readlink(link.c_str(), text, sizeof text);
  return n > 0 && std::string_view(text, static_cast<size_t>(n)) == target;
}

}  // namespace

bool IsPreloadable(std::string_view path) {
  return !path.empty() && path.find_first_of(" :$") == std::string_view::npos;
}

std::string OwnExecutable() {
  char text[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", text, sizeof text);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

Library FindLibrary(const std::string& executable, const std::string& override_path) {
  if (!override_path.empty()) {
    const std::string real = Absolute(override_path);
    if (!real.empty() && access(real.c_str(), R_OK) == 0) return {real, ""};
    return {"", "STEPAGENT_LIB: '" + override_path + "': " + std::strerror(errno)};
  }
  const std::string bin = FolderOf(executable);
  for (const char* relative :
       {"../lib", "../" STEPAGENT_LIBDIR, "../lib/stepagent", "../lib64", "."}) {
    const std::string real = Absolute(bin + "/" + relative + "/libstepagent.so");
    if (!real.empty() && access(real.c_str(), R_OK) == 0) return {real, ""};
  }
  return {"", "libstepagent.so is not in " + bin + "/../lib; STEPAGENT_LIB names another place"};
}

Library PreloadableLibrary(const std::string& path, const proto::RuntimeDirs& dirs) {
  if (IsPreloadable(path)) return {path, ""};
  const std::string folder = PrivateFolder(dirs), target = FolderOf(path);
  const std::string link = folder + "/lib." + FolderHash(target);
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string refusal = "'" + path + "': LD_PRELOAD cannot hold a space, a colon or a $";
  if (folder.empty() || !IsPreloadable(name))
    return {"", refusal +
                    ", and there is no private folder for a link to it (XDG_RUNTIME_DIR, TMPDIR)"};
  if (!PointsTo(link, target)) {
    const std::string fresh = link + "." + std::to_string(getpid());
    if (symlink(target.c_str(), fresh.c_str()) != 0 || rename(fresh.c_str(), link.c_str()) != 0)
      return {"", refusal + ", and " + link + " cannot be made: " + std::strerror(errno)};
  }
  return {link + "/" + name, ""};
}

}  // namespace stepagent::launch
