#pragma once
// A file's text on its way to the disk: filled by one thread, compressed and given on by others.
//
// Purpose: compressing costs several times the formatting, and hashing and the kernel's write() as
// much again as a packet's formatting. The owner fills a block in place; full ones go to worker
// threads. Compressed ones end byte-aligned (sync flush) and are joined in order into a single gzip
// member that every reader takes. The blocks' borders are fixed, so the same text gives the same
// bytes with any number of threads. Threads begin with the first full block: small files need none.
// Thread rule: all calls belong to one thread. The sink is called by one thread at a time, in the
// text's order, and not after Finish has returned; what it touches is the owner's again then.
// Failure rule: zlib can only fail here for lack of memory, which is thrown as std::bad_alloc.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace stepagent::writers {

enum class Compression : uint8_t { kNone, kGzip };

// 1 MiB: with 256 KiB the file grows by 1.5 %, with 4 MiB a cycle of a few MB uses one thread only.
inline constexpr size_t kGzipBlockBytes = size_t{1} << 20;
// write(2) costs a call each; from 64 KiB on that is nothing.
inline constexpr size_t kPlainBlockBytes = size_t{1} << 18;

class BlockStream {
 public:
  using Sink = std::function<void(std::string_view)>;
  // Plain text has one thread, whatever `threads` says.
  BlockStream(Compression compression, unsigned threads, Sink sink);
  ~BlockStream();
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // At least `least` bytes to write text into; valid until the next call of any kind.
  struct Room {
    char* begin;
    char* end;
  };
  [[nodiscard]] Room Reserve(size_t least);
  // The first `bytes` of the room are text now.
  void Advance(size_t bytes);
  void Append(std::string_view text);
  void Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepagent::writers
