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
#include "collector/spool/read_at.h"
#include "proto/crc32c.h"
#include "proto/limits.h"

namespace stepagent::spool {
namespace {

constexpr mode_t kRawMode = 0644;
constexpr size_t kReadBlock = 1 << 20, kLeastBlock = 16 << 10;

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

void RawReader::Fill(uint64_t at) {
  // No more than there is, and a little where it grows.
  const uint64_t left = at < file_bytes_ ? file_bytes_ - at : 0;
  window_.resize(std::clamp<uint64_t>(left, kLeastBlock, kReadBlock));
  window_at_ = at;
  window_.resize(ReadAt(fd_, at, window_.data(), window_.size()));
  window_bytes_read_ += window_.size();
}

// What lies at a place, at least `least` bytes of it unless the file ends there.
std::string_view RawReader::View(uint64_t at, size_t least) {
  const auto held = [&] {
    return at < window_at_ || at > window_at_ + window_.size()
               ? 0
               : static_cast<size_t>(window_at_ + window_.size() - at);
  };
  if (held() < least) Fill(at);
  const size_t length = held();
  return {window_.data() + window_.size() - length, length};
}

bool RawReader::Copy(uint64_t at, char* to, size_t bytes) {
  while (bytes > 0) {
    const std::string_view view = View(at, 1);
    if (view.empty()) return false;
    const size_t part = std::min(bytes, view.size());
    std::memcpy(to, view.data(), part);
    at += part;
    to += part;
    bytes -= part;
  }
  return true;
}

// A collector may write to it now.
bool RawReader::Reaches(uint64_t end) {
  if (end <= file_bytes_) return true;
  struct stat st {};
  if (fstat(fd_, &st) == 0 && st.st_size > 0) {
    file_bytes_ = std::max(file_bytes_, static_cast<uint64_t>(st.st_size));
  }
  return end <= file_bytes_;
}

// kEnd: the file ends within the frame, or at once.
RawReader::At RawReader::ReadFrame(uint64_t at, RawFrame* frame) {
  char head[proto::kFrameHeaderBytes];
  if (!Copy(at, head, sizeof head)) return At::kEnd;
  if (!proto::ParseHeader(reinterpret_cast<const unsigned char*>(head), &frame->header) ||
      frame->header.payload_bytes > proto::kMaxFrameBytes) {
    return At::kDamage;
  }
  const uint64_t begin = at + sizeof head, end = begin + frame->header.payload_bytes;
  if (!Reaches(end)) return At::kEnd;
  // A payload that turns out to be none is read once in a file, not for each that claims to be one.
  if (is_damaged_ && crc_.Of(fd_, begin, end) != frame->header.crc32c) return At::kDamage;
  frame->payload.resize(frame->header.payload_bytes);
  if (!Copy(begin, frame->payload.data(), frame->payload.size())) return At::kEnd;
  const bool is_right =
      proto::Crc32c(frame->payload.data(), frame->payload.size()) == frame->header.crc32c;
  return is_right ? At::kFrame : At::kDamage;
}

// By its header alone: payloads are looked at for what has one of ours.
bool RawReader::MayBeFrame(uint64_t at) {
  char head[proto::kFrameHeaderBytes];
  proto::FrameHeader header;
  return Copy(at, head, sizeof head) &&
         proto::ParseHeader(reinterpret_cast<const unsigned char*>(head), &header) &&
         header.flags == 0 && header.type != 0 &&
         header.type <= static_cast<uint8_t>(proto::FrameType::kTargetEnded);
}

// The first whole frame that begins at `from` or behind, by its magic and its checksum.
bool RawReader::FindFrame(uint64_t from, RawFrame* frame) {
  constexpr std::string_view kMagic = "SAF1";
  is_damaged_ = true;
  for (uint64_t at = from;;) {
    const std::string_view view = View(at, kMagic.size());
    if (view.size() < kMagic.size()) return false;
    const size_t found = view.find(kMagic);
    if (found == std::string_view::npos) {
      at += view.size() - (kMagic.size() - 1);  // one may lie across the border
      continue;
    }
    at += found;
    if (MayBeFrame(at) && ReadFrame(at, frame) == At::kFrame) {
      whole_bytes_ = at;
      return true;
    }
    ++at;
  }
}

bool RawReader::Next(RawFrame* frame) {
  const uint64_t begin = whole_bytes_;
  const At at = ReadFrame(begin, frame);
  if (at == At::kEnd && begin >= file_bytes_) return false;  // nothing follows
  // A damaged length points anywhere: whatever was not a frame is searched for the next one.
  if (at != At::kFrame) {
    if (!FindFrame(begin + 1, frame)) return false;
    ++damaged_frames_;
    damaged_bytes_ += whole_bytes_ - begin;
  }
  frame_at_ = whole_bytes_;
  whole_bytes_ += proto::kFrameHeaderBytes + frame->payload.size();
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
