#pragma once
// A file that appears under its name only when it is whole, and never in place of another.
//
// Purpose: every file of ours is written under a temporary name in the same folder and takes its
// final name by a rename that refuses to replace. Bytes and SHA-256 are counted on the way; with
// gzip, blocks are compressed side by side into ONE member: browsers decode only the first member
// of a gzip response, so a multi-member file would look cut short in TensorBoard.
// Thread rule: one owner thread; a large file is hashed and written, a compressed one compressed,
// by threads of its own, which end with it. Failure rule: the first error sticks ("path: what:
// errno text"), later calls do nothing, and the temporary file is removed unless Commit succeeded.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collector/writers/block_stream.h"

namespace stepagent::writers {

class OutputFile {
 public:
  // The number of compression threads is that of the processors, at most kMaxGzipThreads.
  OutputFile(std::string path, Compression compression);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] bool ok() const;
  [[nodiscard]] const std::string& error() const;
  [[nodiscard]] const std::string& path() const;

  void Write(std::string_view text);
  // The same without a copy: text is written into the room, of at least `least` bytes, which is
  // valid until the next call; Advance says how much of it.
  [[nodiscard]] BlockStream::Room Reserve(size_t least);
  void Advance(size_t bytes);
  // Finishes the content and gives the file its final name; false: see error().
  [[nodiscard]] bool Commit();

  // Valid after Commit.
  [[nodiscard]] uint64_t bytes() const;
  [[nodiscard]] const std::string& sha256() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr unsigned kMaxGzipThreads = 4;

// Writes one small document whole. Returns "" or "path: what: errno text".
[[nodiscard]] std::string WriteWholeFile(const std::string& path, std::string_view text,
                                         uint64_t* bytes, std::string* sha256);

}  // namespace stepagent::writers
