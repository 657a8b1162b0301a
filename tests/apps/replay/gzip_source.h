// A std::istream over a file that may or may not be gzip-compressed.
//
// Thread rule: one thread.
// Failure rule: a file that cannot be opened throws std::runtime_error; a damaged one ends early,
// which the JSON parser then reports.
#pragma once

#include <zlib.h>

#include <array>
#include <istream>
#include <streambuf>
#include <string>

namespace stepagent::replay {

class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(const std::string& path);
  ~GzipBuffer() override;
  GzipBuffer(const GzipBuffer&) = delete;
  GzipBuffer& operator=(const GzipBuffer&) = delete;

 protected:
  int_type underflow() override;

 private:
  gzFile file_;
  std::array<char, 1 << 16> block_;
};

class GzipSource : public std::istream {
 public:
  explicit GzipSource(const std::string& path) : std::istream(nullptr), buffer_(path) {
    rdbuf(&buffer_);
  }

 private:
  GzipBuffer buffer_;
};

}  // namespace stepagent::replay
