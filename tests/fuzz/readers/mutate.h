#pragma once
// Turns fuzz input into edits of something valid.
//
// Purpose: random bytes are refused at the first field; a valid message with a few wrong bytes goes
// deep. Works alike under libFuzzer and the random driver.
// Thread rule: pure functions. Failure rule: none; any input gives some text.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace stepagent::fuzz {

// Four bytes an edit: what, where (two), with which value.
inline std::string Mutate(std::string text, const uint8_t* input, size_t bytes) {
  constexpr size_t kMostEdits = 32;
  for (size_t i = 0; i + 4 <= bytes && i < kMostEdits * 4 && !text.empty(); i += 4) {
    const size_t at = (size_t{input[i + 1]} << 8 | input[i + 2]) * 31 % text.size();
    const uint8_t value = input[i + 3];
    switch (input[i] % 6) {
      case 0:
        text[at] = static_cast<char>(value);
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << value % 8));
        break;
      case 2:
        text.erase(at, value % 16 + 1);
        break;
      case 3:
        text.insert(at, value % 16 + 1, static_cast<char>(value));
        break;
      case 4:
        text.insert(at, text.substr(at, value));
        break;
      default:
        if (value > 250) text.resize(at);
    }
  }
  return text;
}

// What a target reads: `valid` with edits; after a first byte of 0xFF the rest as it is, which is
// how a corpus holds streams and files as they were recorded.
inline std::string Reading(const std::string& valid, const uint8_t* input, size_t bytes) {
  constexpr uint8_t kAsItIs = 0xFF;
  if (bytes > 0 && input[0] == kAsItIs) {
    return {reinterpret_cast<const char*>(input) + 1, bytes - 1};
  }
  return Mutate(valid, input, bytes);
}

// A file that lives in memory only, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    std::snprintf(path_, sizeof path_, "/proc/self/fd/%d", fd_);
    ok_ = fd_ >= 0 &&
          pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
  }
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] const char* path() const { return path_; }

 private:
  int fd_;
  bool ok_ = false;
  char path_[48];
};

}  // namespace stepagent::fuzz
