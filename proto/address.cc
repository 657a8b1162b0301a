#include "proto/address.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace stepagent::proto {
namespace {

constexpr std::string_view kAbstractPrefix = "stepagent/";
constexpr size_t kPathOffset = offsetof(sockaddr_un, sun_path);
constexpr unsigned long kListeningFlag = 0x10000;  // __SO_ACCEPTCON, as /proc/net/unix shows it

std::optional<SocketAddress> AbstractAddress(std::string_view name) {
  SocketAddress address;
  if (name.empty() || name.size() > sizeof address.raw.sun_path - 1) return std::nullopt;
  address.raw.sun_family = AF_UNIX;
  std::memcpy(address.raw.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(kPathOffset + 1 + name.size());
  return address;
}

std::optional<SocketAddress> PathAddress(std::string_view path) {
  SocketAddress address;
  if (path.empty() || path.size() > sizeof address.raw.sun_path - 1) return std::nullopt;
  address.raw.sun_family = AF_UNIX;
  std::memcpy(address.raw.sun_path, path.data(), path.size());
  address.length = static_cast<socklen_t>(kPathOffset + path.size() + 1);
  return address;
}

SocketAddress InFolderOrAbstract(const std::string& folder, uid_t uid, const std::string& name) {
  if (!folder.empty())
    if (const auto address = PathAddress(folder + "/" + name)) return *address;
  std::string abstract = std::string(kAbstractPrefix) + std::to_string(uid) + "/" + name;
  // Session and run ids are short; a longer one is cut rather than left without a socket.
  abstract.resize(std::min(abstract.size(), sizeof(sockaddr_un::sun_path) - 1));
  return *AbstractAddress(abstract);
}

template <typename Number>
std::optional<Number> TakeNumber(std::string_view* text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value, base);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return value;
}

// "agent.<pid>.<session>"
std::optional<AgentEntry> EntryOfName(std::string_view name) {
  AgentEntry entry;
  if (!name.starts_with("agent.")) return std::nullopt;
  name.remove_prefix(6);
  const auto pid = TakeNumber<pid_t>(&name);
  if (!pid || *pid <= 0 || name.size() < 2 || name[0] != '.') return std::nullopt;
  entry.pid = *pid;
  entry.session = std::string(name.substr(1));
  return entry;
}

// Whose folder it is decides whether sockets in it can be swapped under us: our own or root's, and
// not writable for others unless sticky.
bool IsSafeFolder(const char* path) {
  struct stat st {};
  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return false;
  if (st.st_uid != geteuid() && st.st_uid != 0) return false;
  if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)) return false;
  return access(path, W_OK | X_OK) == 0;
}

// Whether the folder can be used, or could be made, by EnsureSocketFolder.
bool IsUsableFolder(const std::string& folder) {
  struct stat st {};
  if (stat(folder.c_str(), &st) == 0) return IsSafeFolder(folder.c_str());
  const size_t slash = folder.rfind('/');
  if (slash == std::string::npos) return access(".", W_OK | X_OK) == 0;
  if (slash == 0) return access("/", W_OK | X_OK) == 0;
  const std::string parent = folder.substr(0, slash);
  if (stat(parent.c_str(), &st) == 0)
    return S_ISDIR(st.st_mode) && access(parent.c_str(), W_OK | X_OK) == 0;
  return IsUsableFolder(parent);
}

void ListFolder(const std::string& folder, std::vector<AgentEntry>* entries) {
  DIR* dir = opendir(folder.c_str());
  if (!dir) return;
  while (const dirent* item = readdir(dir)) {
    auto entry = EntryOfName(item->d_name);
    const auto address = entry ? PathAddress(folder + "/" + item->d_name) : std::nullopt;
    if (!address) continue;
    entry->address = *address;
    entries->push_back(*std::move(entry));
  }
  closedir(dir);
}

// One line of /proc/net/unix: "num refs protocol flags type state inode @name".
std::optional<AgentEntry> EntryOfUnixLine(std::string_view line, uid_t uid) {
  const size_t at = line.find(" @stepagent/");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view fields = line.substr(0, at);
  for (int skip = 0; skip < 3; ++skip)
    fields.remove_prefix(std::min(fields.find(' '), fields.size() - 1) + 1);
  const auto flags = TakeNumber<unsigned long>(&fields, 16);
  if (!flags || !(*flags & kListeningFlag)) return std::nullopt;
  const std::string_view name = line.substr(at + 2);
  std::string_view rest = name.substr(kAbstractPrefix.size());
  const auto owner = TakeNumber<uid_t>(&rest);
  if (!owner || (uid != 0 && *owner != uid) || rest.empty() || rest[0] != '/') return std::nullopt;
  auto entry = EntryOfName(rest.substr(1));
  const auto address = AbstractAddress(name);
  if (!entry || !address) return std::nullopt;
  entry->address = *address;
  return entry;
}

void ListAbstract(uid_t uid, std::vector<AgentEntry>* entries) {
  const int fd = open("/proc/net/unix", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::string text;
  char block[16384];
  for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;)
    text.append(block, static_cast<size_t>(n));
  close(fd);
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (auto entry = EntryOfUnixLine(rest.substr(0, end), uid))
      entries->push_back(*std::move(entry));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void ListUserFolders(uid_t uid, std::vector<AgentEntry>* entries) {
  if (uid != 0) return ListFolder("/run/user/" + std::to_string(uid) + "/stepagent", entries);
  DIR* dir = opendir("/run/user");
  if (!dir) return;
  while (const dirent* item = readdir(dir))
    if (item->d_name[0] != '.')
      ListFolder(std::string("/run/user/") + item->d_name + "/stepagent", entries);
  closedir(dir);
}

}  // namespace

std::string SocketAddress::Text() const {
  if (length <= kPathOffset) return "";
  if (!IsAbstract()) return raw.sun_path;
  return "@" + std::string(raw.sun_path + 1, length - kPathOffset - 1);
}

std::optional<SocketAddress> AddressFromText(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  return text.starts_with('@') ? AbstractAddress(text.substr(1)) : PathAddress(text);
}

RuntimeDirs RuntimeDirsFromEnvironment(char* const* environment) {
  RuntimeDirs dirs;
  for (char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    for (const auto& [name, target] :
         {std::pair{std::string_view("STEPAGENT_RUNTIME_DIR="), &dirs.stepagent_runtime_dir},
          std::pair{std::string_view("XDG_RUNTIME_DIR="), &dirs.xdg_runtime_dir}})
      if (text.starts_with(name) && target->empty())
        *target = std::string(text.substr(name.size()));
  }
  return dirs;
}

std::string SocketFolder(const RuntimeDirs& dirs) {
  // A relative one would mean another folder after each chdir.
  if (dirs.stepagent_runtime_dir.starts_with('/')) return dirs.stepagent_runtime_dir;
  if (!dirs.stepagent_runtime_dir.empty()) return "";
  return dirs.xdg_runtime_dir.starts_with('/') ? dirs.xdg_runtime_dir + "/stepagent" : "";
}

bool EnsureSocketFolder(const std::string& folder) {
  if (folder.empty()) return false;
  for (size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1))
    if (mkdir(folder.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS)
      break;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return IsSafeFolder(folder.c_str());
  return IsSafeFolder(folder.c_str());
}

SocketAddress AgentAddress(const std::string& folder, uid_t uid, pid_t pid,
                           std::string_view session) {
  return InFolderOrAbstract(folder, uid,
                            "agent." + std::to_string(pid) + "." + std::string(session));
}

SocketAddress CollectorAddress(const std::string& folder, uid_t uid, std::string_view run) {
  return InFolderOrAbstract(folder, uid, "collector." + std::string(run));
}

std::vector<AgentEntry> ListAgents(const RuntimeDirs& dirs, uid_t uid) {
  std::vector<AgentEntry> entries;
  const std::string folder = SocketFolder(dirs);
  if (!folder.empty()) ListFolder(folder, &entries);
  // A folder asked for by name is a name space of its own, as long as sockets can live there: the
  // longest name in it is the folder, "/agent.", ten digits, a dot, 16 digits.
  const bool is_own_space = !dirs.stepagent_runtime_dir.empty() && IsUsableFolder(folder) &&
                            folder.size() + 34 < sizeof(sockaddr_un::sun_path);
  if (!is_own_space) {
    ListUserFolders(uid, &entries);
    ListAbstract(uid, &entries);
  }
  const auto key = [](const AgentEntry& e) { return std::pair(e.pid, e.address.Text()); };
  std::sort(entries.begin(), entries.end(),
            [&](const AgentEntry& a, const AgentEntry& b) { return key(a) < key(b); });
  entries.erase(
      std::unique(entries.begin(), entries.end(),
                  [&](const AgentEntry& a, const AgentEntry& b) { return key(a) == key(b); }),
      entries.end());
  return entries;
}

}  // namespace stepagent::proto
