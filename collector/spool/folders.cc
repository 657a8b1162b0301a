#include "collector/spool/folders.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stepagent::spool {
namespace {

constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0644;

constexpr size_t kBufferBytes = 64 << 10;

std::string Unique() {
  static std::atomic<unsigned> counter{0};
  return std::to_string(getpid()) + "." +
         std::to_string(counter.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

std::string ErrnoText(const std::string& path, const char* what, int error) {
  return path + ": " + what + ": " + std::strerror(error);
}

bool IsRealFolder(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::string MakeOut(const std::string& path) {
  if (path.empty()) return "the output folder's name is empty";
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (mkdir(parent.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return ErrnoText(parent, "cannot create folder", errno);
    }
  }
  if (mkdir(path.c_str(), kFolderMode) == 0) return {};
  const int error = errno;
  struct stat st {};
  const bool is_folder = stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  if (error == EEXIST && is_folder) return {};
  return ErrnoText(path, "cannot create folder", error == EEXIST ? ENOTDIR : error);
}

std::string MakeFolder(const std::string& path) {
  bool existed = false;
  std::string error = MakeNewFolder(path, &existed);
  if (existed && IsRealFolder(path)) return {};
  return existed ? ErrnoText(path, "is in the way", ENOTDIR) : error;
}

std::string MakeNewFolder(const std::string& path, bool* existed) {
  *existed = false;
  if (mkdir(path.c_str(), kFolderMode) == 0) return {};
  const int error = errno;
  *existed = error == EEXIST;
  return ErrnoText(path, "cannot create folder", error);
}

std::string PointLatest(const std::string& out, const std::string& name) {
  const std::string link = out + "/latest";
  struct stat st {};
  if (lstat(link.c_str(), &st) == 0 && !S_ISLNK(st.st_mode)) {
    return link + ": left alone, it is not a link of ours";
  }
  const std::string temporary = out + "/.latest." + Unique();
  if (symlink(name.c_str(), temporary.c_str()) != 0) {
    return ErrnoText(temporary, "cannot create link", errno);
  }
  if (rename(temporary.c_str(), link.c_str()) == 0) return {};
  const int error = errno;
  unlink(temporary.c_str());
  return ErrnoText(link, "cannot replace link", error);
}

FileReplacement::FileReplacement(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".partial." + Unique()) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  if (fd_ < 0) error_ = ErrnoText(temporary_, "cannot create", errno);
}

FileReplacement::~FileReplacement() {
  if (fd_ >= 0) close(fd_);
  if (fd_ >= 0 || is_prepared_) unlink(temporary_.c_str());
}

void FileReplacement::Append(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) Flush();
}

void FileReplacement::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && error_.empty()) {
    const ssize_t n = write(fd_, rest.data(), rest.size());
    if (n > 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (n == 0 || errno != EINTR) {
      error_ = ErrnoText(path_, "cannot write", n == 0 ? ENOSPC : errno);
    }
  }
  buffer_.clear();
}

std::string FileReplacement::Prepare() {
  if (fd_ < 0) return error_;
  Flush();
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 && error_.empty()) error_ = ErrnoText(path_, "cannot write", errno);
  is_prepared_ = error_.empty();
  if (!is_prepared_) unlink(temporary_.c_str());
  return error_;
}

std::string FileReplacement::Commit() {
  if (!Prepare().empty() || !std::exchange(is_prepared_, false)) return error_;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    error_ = ErrnoText(path_, "cannot write", errno);
    unlink(temporary_.c_str());
  }
  return error_;
}

std::string ReplaceFile(const std::string& path, std::string_view text) {
  FileReplacement file(path);
  file.Append(text);
  return file.Commit();
}

std::vector<std::string> RealFoldersIn(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && IsRealFolder(path + "/" + name)) names.push_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace stepagent::spool
