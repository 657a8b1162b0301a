#pragma once
// The checksum of any stretch of a file, without reading the stretch anew for each question.
//
// Purpose: where a file is damaged every place that looks like a frame's begin claims a payload,
// and claims may overlap. Read one by one they would cost the file's length squared; checksums are
// linear, so those of the stretches from one place on tell that of any stretch between.
// Thread rule: one owner. Memory: 4 bytes for each kMarkBytes between the first and the last place
// asked about, forgotten once a stretch begins behind them all.
// Failure rule: a stretch that cannot be read has no checksum.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace stepagent::spool {

class RangeCrc {
 public:
  // At most this much is read to answer for a place, beside what lies between marks, once.
  static constexpr uint64_t kMarkBytes = 256;
  // Longest stretch; frames are shorter by far.
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 28;

  // CRC-32C of [begin, end) of the file behind `fd`.
  [[nodiscard]] std::optional<uint32_t> Of(int fd, uint64_t begin, uint64_t end);
  [[nodiscard]] uint64_t bytes_read() const { return bytes_read_; }

 private:
  [[nodiscard]] bool Read(int fd, uint64_t at, size_t bytes);
  [[nodiscard]] bool MarkUpTo(int fd, uint64_t at);
  [[nodiscard]] std::optional<uint32_t> UpTo(int fd, uint64_t at);

  uint64_t origin_ = 0;          // of the stretches that are marked
  std::vector<uint32_t> marks_;  // [i]: checksum of [origin, origin + i * kMarkBytes)
  std::vector<char> block_;
  uint64_t bytes_read_ = 0;
};

}  // namespace stepagent::spool
