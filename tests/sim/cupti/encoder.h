// Writes fields of a record at their offsets, as far as this personality's record reaches.
//
// The offsets are those that every known generation shares; a field beyond the record's size does
// not exist in it. Threads: one encoder per stack frame. Failure: none.
#pragma once

#include <cstring>

#include "cupti/buffers.h"
#include "cupti/personality.h"

namespace stepagent::sim {

class Encoder {
 public:
  explicit Encoder(uint32_t kind) {
    record_.kind = kind;
    record_.size = RecordBytes(kind);
    memset(record_.bytes, 0, record_.size);
    FillUnknownTail();
    Put<uint32_t>(0, kind);
  }

  // False when this generation has no such record.
  [[nodiscard]] bool exists() const { return record_.size != 0; }

  template <class T>
  Encoder& Put(uint32_t offset, T value) {
    if (offset + sizeof(T) <= record_.size) memcpy(record_.bytes + offset, &value, sizeof(T));
    return *this;
  }

  // For a field that is newer than the others: `since` is the smallest record that has it.
  template <class T>
  Encoder& PutSince(uint32_t since, uint32_t offset, T value) {
    return record_.size >= since ? Put(offset, value) : *this;
  }

  EncodedRecord& record() { return record_; }

 private:
  // What a later generation adds is not zero: a reader must not take it for padding.
  void FillUnknownTail() {
    const Personality* known = FindPersonality("13.0");
    const uint32_t known_size = known->record_bytes[record_.kind % kMaxKind];
    if (known_size < record_.size) {
      memset(record_.bytes + known_size, 0xA5, record_.size - known_size);
    }
  }

  EncodedRecord record_;
};

}  // namespace stepagent::sim
