#pragma once
// SHA-256 of a byte stream (FIPS 180-4).
//
// Purpose: the digest of each written file, for the manifest. Own code because the only library in
// reach, libcrypto, would be a megabyte for this one function.
// Thread rule: one object, one thread.
// Failure rule: cannot fail.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepagent::writers {

class Sha256 {
 public:
  void Update(std::string_view bytes);
  // Ends the stream; the object must not be used afterwards.
  [[nodiscard]] std::string HexDigest();

 private:
  void Compress(const uint8_t* block, size_t count);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace stepagent::writers
