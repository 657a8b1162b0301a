#pragma once
// Layouts: how long the loaded library's records are, by its own iterator.
//
// Purpose: one binary for CUPTI 11.2 to 13.x and later. Record families grow at their end only
// (measured and read in the headers, 11.2 to 13.5), so a field is there when the record is long
// enough for it. The iterator needs no device, so lengths are known before the first record. It
// must not be asked where no libcuda is mapped: 13.2 recurses until the stack ends there, 13.5
// refuses. Thread rule: Calibrate once, then read-only. Failure rule: a kind the library does not
// know has length 0; one shorter than its family's minimum is not decoded.
#include <cstdint>

#include "agent/cupti/api_table.h"
#include "agent/cupti/kinds.h"

namespace stepagent::cupti {

class Layouts {
 public:
  void Calibrate(const ApiTable& api);

  // Bytes of a record of this kind, 0 unknown.
  [[nodiscard]] uint32_t bytes(uint32_t kind) const { return kind < kKindLimit ? bytes_[kind] : 0; }
  // Long enough for every field that all known versions have.
  [[nodiscard]] bool IsDecodable(uint32_t kind) const {
    return kind < kKindLimit && decodable_[kind];
  }
  // Some record is longer than any known layout: its known prefix is decoded.
  [[nodiscard]] bool is_newer() const { return is_newer_; }
  // The sets of 12.6 and 13.0 are equally long, but only the later have a meaning in byte 84; the
  // kernel record of the same release tells them apart.
  [[nodiscard]] bool memset_has_device_launched() const {
    return bytes_[kKindConcurrentKernel] >= 216;
  }

  // The library's length of any kind, without the table: for tests and documents.
  [[nodiscard]] static uint32_t Measure(const ApiTable& api, uint32_t kind);

 private:
  void Take(const ApiTable& api, const KindSpec& spec);

  uint16_t bytes_[kKindLimit] = {};
  bool decodable_[kKindLimit] = {};
  bool is_newer_ = false;
};

}  // namespace stepagent::cupti
