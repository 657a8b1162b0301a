#include "collector/writers/sha256.h"

// The functions that 3.0 calls deprecated are the ones that link alone, 20 KiB of them; their
// successors bring all of libcrypto.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace stepagent::writers {
namespace {

SHA256_CTX* Context(unsigned char* bytes) { return reinterpret_cast<SHA256_CTX*>(bytes); }

}  // namespace

Sha256::Sha256() {
  static_assert(sizeof(SHA256_CTX) <= kContextBytes && alignof(SHA256_CTX) <= 8);
  SHA256_Init(Context(context_.data()));
}

void Sha256::Update(std::string_view bytes) {
  SHA256_Update(Context(context_.data()), bytes.data(), bytes.size());
}

std::string Sha256::HexDigest() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256_Final(digest.data(), Context(context_.data()));
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace stepagent::writers
