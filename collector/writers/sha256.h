#pragma once
// SHA-256 of a byte stream (FIPS 180-4).
//
// Purpose: the digest of each written file, for the manifest, by libcrypto's block function, which
// uses the processor's own instructions: the digest was nine tenths of what a Perfetto file cost.
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
  Sha256();
  void Update(std::string_view bytes);
  // Ends the stream; the object must not be used afterwards.
  [[nodiscard]] std::string HexDigest();

 private:
  // libcrypto's SHA256_CTX, whose header stays out of ours.
  static constexpr size_t kContextBytes = 112;
  alignas(8) std::array<unsigned char, kContextBytes> context_{};
};

}  // namespace stepagent::writers
