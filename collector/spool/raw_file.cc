#include "collector/spool/raw_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

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

// The frame at the place reached; kEnd: the file ends within it, or at once.
RawReader::At RawReader::ReadFrame(RawFrame* frame) {
  unsigned char head[proto::kFrameHeaderBytes];
  if (!Read(head, sizeof head)) return At::kEnd;
  if (!proto::ParseHeader(head, &frame->header) ||
      frame->header.payload_bytes > proto::kMaxFrameBytes) {
    return At::kDamage;
  }
  frame->payload.resize(frame->header.payload_bytes);
  if (!Read(frame->payload.data(), frame->payload.size())) return At::kEnd;
  const bool is_right =
      proto::Crc32c(frame->payload.data(), frame->payload.size()) == frame->header.crc32c;
  return is_right ? At::kFrame : At::kDamage;
}

void RawReader::SeekTo(uint64_t offset) {
  static_cast<void>(lseek(fd_, static_cast<off_t>(offset), SEEK_SET));
  buffer_.clear();
  buffer_at_ = 0;
}

// By its header alone: payloads are read for what has one of ours.
bool RawReader::MayBeFrame(uint64_t at) const {
  unsigned char head[proto::kFrameHeaderBytes];
  proto::FrameHeader header;
  return pread(fd_, head, sizeof head, static_cast<off_t>(at)) == sizeof head &&
         proto::ParseHeader(head, &header) && header.flags == 0 && header.type != 0 &&
         header.type <= static_cast<uint8_t>(proto::FrameType::kTargetEnded) &&
         at + sizeof head + header.payload_bytes <= file_bytes_;
}

// The first whole frame that begins at `from` or behind, by its magic and its checksum.
bool RawReader::FindFrame(uint64_t from, RawFrame* frame) {
  const char magic[] = {'S', 'A', 'F', '1'};
  std::vector<char> block(kReadBlock);
  for (uint64_t at = from;;) {
    const ssize_t n = pread(fd_, block.data(), block.size(), static_cast<off_t>(at));
    if (n < static_cast<ssize_t>(sizeof magic)) return false;
    const auto end = block.begin() + n;
    for (auto it = block.begin();; ++it) {
      it = std::search(it, end, std::begin(magic), std::end(magic));
      if (it == end) break;
      const uint64_t begin = at + static_cast<uint64_t>(it - block.begin());
      if (!MayBeFrame(begin)) continue;
      SeekTo(begin);
      if (ReadFrame(frame) != At::kFrame) continue;
      whole_bytes_ = begin;
      return true;
    }
    at += static_cast<uint64_t>(n) - (sizeof magic - 1);  // one may lie across the border
  }
}

bool RawReader::Next(RawFrame* frame) {
  const uint64_t begin = whole_bytes_;
  const At at = ReadFrame(frame);
  if (at == At::kEnd && buffer_.empty() && begin >= file_bytes_) return false;  // nothing follows
  // A damaged length points anywhere: whatever was not a frame is searched for the next one.
  if (at != At::kFrame) {
    if (!FindFrame(begin + 1, frame)) return false;
    ++damaged_frames_;
    damaged_bytes_ += whole_bytes_ - begin;
  }
  whole_bytes_ += proto::kFrameHeaderBytes + frame->payload.size();
  // The file may have grown since it was opened.
  file_bytes_ = std::max(file_bytes_, whole_bytes_);
  return true;
}

bool IsLive(const std::string& raw_path) {
  const int fd = open(raw_path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_live = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return is_live;
}

}  // namespace stepagent::spool
