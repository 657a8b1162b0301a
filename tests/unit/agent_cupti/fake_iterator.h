#pragma once
// An iterator over activity records of a given CUPTI version, for tests without the library.
//
// One version at a time per process; tests set it first. Behaves as measured: a record that does
// not fit ends the walk with 12, an unknown kind with 21 (999 on 11.x).
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "agent/cupti/api_table.h"
#include "agent/cupti/kinds.h"

namespace stepagent::cupti {

struct FakeVersion {
  const char* name;
  uint32_t kernel, memcpy, memset, memcpy_peer, device, context, overhead, sync, graph, memory2;
  int unknown_kind_result;
};
// reference: sizes measured with the real iterators.
inline constexpr FakeVersion kFakeVersions[] = {
    {"11.2", 168, 80, 80, 88, 144, 16, 40, 40, 0, 112, 999},
    {"11.8", 200, 88, 88, 96, 176, 16, 40, 40, 48, 120, 999},
    {"12.4", 208, 88, 88, 96, 184, 24, 56, 40, 56, 120, 21},
    {"12.6", 208, 88, 88, 96, 184, 32, 56, 40, 56, 128, 21},
    {"13.0", 216, 96, 88, 96, 184, 32, 56, 56, 56, 128, 21},
    {"future", 264, 112, 104, 120, 216, 48, 72, 72, 72, 144, 21},
};

class FakeIterator {
 public:
  static void Set(const FakeVersion& version) {
    std::memset(sizes_, 0, sizeof(sizes_));
    unknown_kind_result_ = version.unknown_kind_result;
    sizes_[kKindKernel] = sizes_[kKindConcurrentKernel] = version.kernel;
    sizes_[kKindMemcpy] = version.memcpy;
    sizes_[kKindMemset] = version.memset;
    sizes_[kKindMemcpyPeer] = version.memcpy_peer;
    sizes_[kKindDevice] = version.device;
    sizes_[kKindContext] = version.context;
    sizes_[kKindOverhead] = version.overhead;
    sizes_[kKindSync] = version.sync;
    sizes_[kKindGraphTrace] = version.graph;
    sizes_[kKindMemory2] = version.memory2;
    sizes_[kKindStream] = sizes_[kKindExternalCorrelation] = 24;
    sizes_[kKindDriver] = sizes_[kKindRuntime] = 40;
    sizes_[52] = 72;  // a kind that the iterator knows and we do not
  }
  static void SetSize(uint32_t kind, uint32_t bytes) { sizes_[kind] = bytes; }
  [[nodiscard]] static uint32_t size(uint32_t kind) { return kind < kKindLimit ? sizes_[kind] : 0; }
  static CUptiResult Next(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
    auto* at = reinterpret_cast<uint8_t*>(*record);
    if (at == nullptr || at < buffer || at >= buffer + valid) {
      at = buffer;
    } else {
      at += size(KindAt(at));
    }
    const size_t left = static_cast<size_t>(buffer + valid - at);
    if (left < sizeof(uint32_t)) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    const uint32_t bytes = size(KindAt(at));
    if (bytes == 0) return static_cast<CUptiResult>(unknown_kind_result_);
    if (bytes > left) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(at);
    return CUPTI_SUCCESS;
  }
  [[nodiscard]] static ApiTable Table() {
    ApiTable api;
    api.ActivityGetNextRecord = Next;
    return api;
  }

 private:
  static uint32_t KindAt(const uint8_t* at) {
    uint32_t kind;
    std::memcpy(&kind, at, sizeof(kind));
    return kind;
  }
  static inline uint32_t sizes_[kKindLimit] = {};
  static inline int unknown_kind_result_ = 21;
};

// Records one after another, 8-aligned, fields set by offset.
class BufferWriter {
 public:
  // Appends a zeroed record and makes it the current one.
  BufferWriter& Record(uint32_t kind, uint32_t bytes) {
    begin_ = used_;
    used_ += bytes;
    words_.resize((used_ + 7) / 8, 0);
    return Set<uint32_t>(0, kind);
  }
  template <typename T>
  BufferWriter& Set(uint32_t offset, T value) {
    if (begin_ + offset + sizeof(T) <= words_.size() * 8) {
      std::memcpy(data() + begin_ + offset, &value, sizeof(T));
    }
    return *this;
  }
  // Everything behind the current record's kind becomes this byte.
  BufferWriter& Fill(uint8_t byte) {
    std::memset(data() + begin_ + 4, byte, used_ - begin_ - 4);
    return *this;
  }
  [[nodiscard]] uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data()); }
  [[nodiscard]] size_t bytes() const { return used_; }

 private:
  std::vector<uint64_t> words_;
  size_t begin_ = 0;
  size_t used_ = 0;
};

}  // namespace stepagent::cupti
