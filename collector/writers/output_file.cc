#include "collector/writers/output_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "collector/writers/sha256.h"

namespace stepagent::writers {
namespace {

std::string ErrorText(const std::string& path, const char* what, int error) {
  return path + ": " + what + ": " + std::strerror(error);
}

std::string TemporaryName(const std::string& path) {
  static std::atomic<unsigned> counter{0};  // relaxed: only has to be different each time
  const size_t slash = path.find_last_of('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  // 200: a file name may have 255 bytes, and this one is longer than the final one.
  return path.substr(0, base) + "." + path.substr(base, 200) + "." + std::to_string(getpid()) +
         "." + std::to_string(counter.fetch_add(1, std::memory_order_relaxed)) + ".tmp";
}

// A rename that refuses to replace. Where the file system knows no RENAME_NOREPLACE, a hard link
// has the same property.
int RenameExclusive(const char* from, const char* to) {
  if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (link(from, to) != 0) return -1;
  unlink(from);
  return 0;
}

}  // namespace

struct OutputFile::Impl {
  std::string path;
  std::string temporary;
  int fd = -1;
  // Of the stream's threads while it runs, the owner's before and after.
  uint64_t bytes = 0;
  Sha256 hash;
  std::string error;
  std::atomic<bool> has_failed{false};  // release after `error` is set, acquire before it is read
  std::string sha256;
  std::optional<BlockStream> stream;

  void Fail(const char* what, int code) {
    if (has_failed.load(std::memory_order_relaxed)) return;
    error = ErrorText(path, what, code);
    has_failed.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool ok() const { return !has_failed.load(std::memory_order_acquire); }

  void Put(std::string_view text) {
    if (!ok()) return;
    hash.Update(text);
    bytes += text.size();
    while (!text.empty()) {
      const ssize_t n = ::write(fd, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Fail("write", errno);
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
};

OutputFile::OutputFile(std::string path, Compression compression)
    : impl_(std::make_unique<Impl>()) {
  impl_->path = std::move(path);
  impl_->temporary = TemporaryName(impl_->path);
  impl_->fd =
      ::open(impl_->temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (impl_->fd < 0) impl_->Fail("create", errno);
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxGzipThreads);
  impl_->stream.emplace(compression, threads,
                        [impl = impl_.get()](std::string_view text) { impl->Put(text); });
}

OutputFile::~OutputFile() {
  impl_->stream.reset();
  if (impl_->fd < 0) return;
  ::close(impl_->fd);
  ::unlink(impl_->temporary.c_str());
}

bool OutputFile::ok() const { return impl_->ok(); }
const std::string& OutputFile::error() const {
  static const std::string kNone;
  return impl_->ok() ? kNone : impl_->error;
}
const std::string& OutputFile::path() const { return impl_->path; }
uint64_t OutputFile::bytes() const { return impl_->bytes; }
const std::string& OutputFile::sha256() const { return impl_->sha256; }

void OutputFile::Write(std::string_view text) { impl_->stream->Append(text); }
BlockStream::Room OutputFile::Reserve(size_t least) { return impl_->stream->Reserve(least); }
void OutputFile::Advance(size_t bytes) { impl_->stream->Advance(bytes); }

bool OutputFile::Commit() {
  impl_->stream->Finish();
  if (!impl_->ok()) return false;
  // Not synced to the device: raw.steps is what survives a crash, and this file can be made again.
  const int closed = ::close(std::exchange(impl_->fd, -1));
  if (closed != 0) impl_->Fail("close", errno);
  if (impl_->ok() && RenameExclusive(impl_->temporary.c_str(), impl_->path.c_str()) != 0) {
    impl_->Fail("rename", errno);
  }
  if (!impl_->ok()) {
    ::unlink(impl_->temporary.c_str());
    return false;
  }
  impl_->sha256 = impl_->hash.HexDigest();
  return true;
}

std::string WriteWholeFile(const std::string& path, std::string_view text, uint64_t* bytes,
                           std::string* sha256) {
  OutputFile file(path, Compression::kNone);
  file.Write(text);
  if (!file.Commit()) return file.error();
  if (bytes != nullptr) *bytes = file.bytes();
  if (sha256 != nullptr) *sha256 = file.sha256();
  return "";
}

}  // namespace stepagent::writers
