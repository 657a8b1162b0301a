#pragma once
// The bytes of a trace file somebody else wrote: plain or gzip, repaired where a name is damaged.
//
// Purpose: a JSON parser gives up at the first byte that is no text; here such a byte inside a
// string, and half a surrogate pair, becomes U+FFFD, NaN and Infinity become null, all counted, and
// everything behind is still read. What a gzip stream
// gives before it breaks is given too, and how it broke is told apart.
// Thread rule: one owner.
// Failure rule: a file that cannot be opened is `is_open` false with errno; the rest is the end of
// the stream and a word in `gzip_problem`.
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::analysis {

class TraceInput final : public std::streambuf {
 public:
  explicit TraceInput(const std::string& path);
  ~TraceInput() override;
  TraceInput(const TraceInput&) = delete;
  TraceInput& operator=(const TraceInput&) = delete;

  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  // What is wrong with the file as a gzip file; "" nothing.
  [[nodiscard]] const std::string& gzip_problem() const { return gzip_problem_; }
  // How often something else stands for what was no text or no number.
  [[nodiscard]] uint64_t repairs() const { return repairs_; }

 protected:
  int_type underflow() override;

 private:
  [[nodiscard]] size_t ReadPlain();  // bytes of the document now at the end of `raw_`
  [[nodiscard]] size_t Inflate();
  [[nodiscard]] bool FillPacked();
  void EndOfMember();
  // `length` bytes taken, 0 where more are needed to tell; `before` is put before them, `instead`
  // (unless empty) in their place.
  struct Step {
    size_t length;
    std::string_view before, instead;
  };
  [[nodiscard]] Step OutsideOfStrings(size_t at, bool is_end);
  [[nodiscard]] Step InString(size_t at, bool is_end);
  void Repair(bool is_end);

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  z_stream z_{};
  bool is_gzip_ = false, is_first_ = true, is_over_ = false;
  std::vector<unsigned char> packed_;
  std::string raw_, text_;  // as it came, not yet looked at; as it is given
  std::string gzip_problem_;
  uint64_t repairs_ = 0;
  bool in_string_ = false, is_escaped_ = false;
};

}  // namespace stepagent::analysis
