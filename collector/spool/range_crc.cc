#include "collector/spool/range_crc.h"

#include <algorithm>
#include <array>

#include "collector/spool/read_at.h"
#include "proto/crc32c.h"

namespace stepagent::spool {
namespace {

constexpr uint64_t kBlockBytes = 64 * 1024;

// Polynomials over GF(2) modulo CRC-32C's, the lowest power in the highest bit.
constexpr uint32_t kPolynomial = 0x82F63B78, kOne = 0x80000000, kX = 0x40000000;

constexpr uint32_t Times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// [k]: x to the power of 2^k.
constexpr std::array<uint32_t, 32> MakePowers() {
  std::array<uint32_t, 32> powers{kX};
  for (size_t k = 1; k < powers.size(); ++k) powers[k] = Times(powers[k - 1], powers[k - 1]);
  return powers;
}
constexpr std::array<uint32_t, 32> kPowers = MakePowers();

// What a checksum contributes to that of the same bytes with `bytes` more behind them.
uint32_t Shifted(uint32_t crc, uint64_t bytes) {
  for (size_t k = 3; bytes != 0; bytes >>= 1, ++k) {  // eight bits a byte
    if ((bytes & 1) != 0) crc = Times(kPowers[k], crc);
  }
  return crc;
}

}  // namespace

bool RangeCrc::Read(int fd, uint64_t at, size_t bytes) {
  block_.resize(bytes);
  const size_t read = ReadAt(fd, at, block_.data(), bytes);
  bytes_read_ += read;
  return read == bytes;
}

bool RangeCrc::MarkUpTo(int fd, uint64_t at) {
  while (marks_.size() * kMarkBytes <= at - origin_) {
    const uint64_t from = origin_ + (marks_.size() - 1) * kMarkBytes;
    const uint64_t wanted = std::min(kBlockBytes, (at - from) / kMarkBytes * kMarkBytes);
    if (!Read(fd, from, wanted)) return false;
    for (uint64_t i = 0; i < wanted; i += kMarkBytes) {
      marks_.push_back(proto::Crc32c(block_.data() + i, kMarkBytes, marks_.back()));
    }
  }
  return true;
}

std::optional<uint32_t> RangeCrc::UpTo(int fd, uint64_t at) {
  if (!MarkUpTo(fd, at)) return std::nullopt;
  const uint64_t mark = (at - origin_) / kMarkBytes;
  const uint64_t rest = (at - origin_) % kMarkBytes;
  if (!Read(fd, at - rest, rest)) return std::nullopt;
  return proto::Crc32c(block_.data(), rest, marks_[mark]);
}

std::optional<uint32_t> RangeCrc::Of(int fd, uint64_t begin, uint64_t end) {
  if (end < begin || end - begin > kMaxBytes) return std::nullopt;
  const bool is_apart =
      marks_.empty() || begin < origin_ || begin > origin_ + marks_.size() * kMarkBytes;
  if (is_apart) {
    origin_ = begin;
    marks_.assign(1, 0);
  }
  const std::optional<uint32_t> before = UpTo(fd, begin), whole = UpTo(fd, end);
  if (!before || !whole) return std::nullopt;
  return *whole ^ Shifted(*before, end - begin);
}

}  // namespace stepagent::spool
