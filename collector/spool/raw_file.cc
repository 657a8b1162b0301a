#include "collector/spool/raw_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collector/spool/folders.h"
#include "proto/crc32c.h"
#include "proto/limits.h"

namespace stepagent::spool {
namespace {

constexpr mode_t kRawMode = 0644;
constexpr size_t kReadBlock = 1 << 20;

}  // namespace

RawWriter::~RawWriter() { Close(); }

void RawWriter::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool RawWriter::Lock() { return flock(fd_, LOCK_EX | LOCK_NB) == 0; }

std::string RawWriter::Create(const std::string& path) {
  path_ = path;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kRawMode);
  if (fd_ < 0) return ErrnoText(path, "cannot create", errno);
  // Not every file system can lock; then the exclusive creation has to be enough.
  static_cast<void>(Lock());
  return {};
}

std::string RawWriter::Resume(const std::string& path, bool* is_live) {
  path_ = path;
  *is_live = false;
  fd_ = open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd_ < 0) return ErrnoText(path, "cannot open", errno);
  if (!Lock() && errno == EWOULDBLOCK) {
    *is_live = true;
    Close();
    return path + ": held by a running collector";
  }
  return {};
}

void RawWriter::CutAt(uint64_t whole_bytes) {
  bytes_ = whole_bytes;
  is_torn_ = true;
}

std::string RawWriter::Append(const proto::FrameHeader& header, const void* payload) {
  if (fd_ < 0) return path_ + ": not open";
  if (is_torn_ && ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
    return ErrnoText(path_, "cannot cut a torn frame", errno);
  }
  is_torn_ = false;
  unsigned char head[proto::kFrameHeaderBytes];
  proto::WriteHeader(header, head);
  iovec parts[2] = {{head, sizeof head}, {const_cast<void*>(payload), header.payload_bytes}};
  const uint64_t total = sizeof head + header.payload_bytes;
  uint64_t done = 0;
  while (done < total) {
    const ssize_t n = pwritev(fd_, parts, 2, static_cast<off_t>(bytes_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      is_torn_ = ftruncate(fd_, static_cast<off_t>(bytes_)) != 0;
      return ErrnoText(path_, "cannot append", error);
    }
    done += static_cast<uint64_t>(n);
    size_t left = static_cast<size_t>(n);
    for (iovec& part : parts) {
      const size_t used = std::min(left, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + used;
      part.iov_len -= used;
      left -= used;
    }
  }
  bytes_ += total;
  return {};
}

RawReader::~RawReader() {
  if (fd_ >= 0) close(fd_);
}

std::string RawReader::Open(const std::string& path) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return ErrnoText(path, "cannot open", errno);
  struct stat st {};
  if (fstat(fd_, &st) != 0) return ErrnoText(path, "cannot stat", errno);
  if (!S_ISREG(st.st_mode)) return path + ": not a file";
  file_bytes_ = static_cast<uint64_t>(st.st_size);
  return {};
}

bool RawReader::Read(void* to, size_t bytes) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    if (buffer_at_ == buffer_.size()) {
      buffer_.resize(kReadBlock);
      buffer_at_ = 0;
      ssize_t n = 0;
      do {
        n = read(fd_, buffer_.data(), buffer_.size());
      } while (n < 0 && errno == EINTR);
      buffer_.resize(n > 0 ? static_cast<size_t>(n) : 0);
      if (n <= 0) return false;
    }
    const size_t part = std::min(bytes, buffer_.size() - buffer_at_);
    std::memcpy(out, buffer_.data() + buffer_at_, part);
    buffer_at_ += part;
    out += part;
    bytes -= part;
  }
  return true;
}

bool RawReader::Next(RawFrame* frame) {
  while (true) {
    unsigned char head[proto::kFrameHeaderBytes];
    if (!Read(head, sizeof head) || !proto::ParseHeader(head, &frame->header)) return false;
    if (frame->header.payload_bytes > proto::kMaxFrameBytes) return false;
    frame->payload.resize(frame->header.payload_bytes);
    if (!Read(frame->payload.data(), frame->payload.size())) return false;
    whole_bytes_ += sizeof head + frame->payload.size();
    // The file may have grown since it was opened.
    file_bytes_ = std::max(file_bytes_, whole_bytes_);
    if (proto::Crc32c(frame->payload.data(), frame->payload.size()) == frame->header.crc32c) {
      return true;
    }
    ++damaged_frames_;
  }
}

bool IsLive(const std::string& raw_path) {
  const int fd = open(raw_path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_live = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return is_live;
}

}  // namespace stepagent::spool
