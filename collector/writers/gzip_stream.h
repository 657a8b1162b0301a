#pragma once
// One gzip member, compressed in blocks side by side.
//
// Purpose: compression costs several times the writing itself, so blocks of kGzipBlockBytes go to
// worker threads; each ends byte-aligned (sync flush) and they are joined in order into a single
// member that every reader takes. The blocks' borders are fixed, so the same text gives the same
// bytes with any number of threads.
// Thread rule: Append and Finish belong to one thread; the sink is called on that thread only.
// Failure rule: zlib can only fail here for lack of memory, which is thrown as std::bad_alloc.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace stepagent::writers {

// 1 MiB: with 256 KiB the file grows by 1.5 %, with 4 MiB a cycle of a few MB uses one thread only.
inline constexpr size_t kGzipBlockBytes = size_t{1} << 20;

class GzipStream {
 public:
  using Sink = std::function<void(std::string_view)>;
  GzipStream(unsigned threads, Sink sink);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  void Append(std::string_view text);
  void Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepagent::writers
