#pragma once
// A frame: the length-prefixed unit on every socket and in raw.steps.
//
// Purpose: the one layout both processes (and the files between them) share.
// Thread rule: plain data and pure functions; safe anywhere.
// Failure rule: nothing here fails; ParseHeader says whether bytes are a header at all, and the
// reader decides what to do. A frame with a wrong checksum is refused alone.
//
// All integers little endian. Header, 24 bytes:
//   0 u32 magic "SAF1"   4 u8 type   5 u8 version   6 u16 flags (0)
//   8 u32 payload bytes  12 u32 CRC-32C of the payload   16 u64 sequence in this direction
//
// Older and newer peers: `version` is the frame layout and never changes without a new magic. The
// message protocol is agreed in Hello/Welcome: the agent offers [min, max], the collector picks the
// highest both know or refuses with a reason. Unknown frame types and unknown fields are skipped.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stepagent::proto {

inline constexpr uint32_t kFrameMagic = 0x31464153;  // "SAF1"
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr uint32_t kProtocolMin = 1;
inline constexpr uint32_t kProtocol = 1;

enum class FrameType : uint8_t {
  kNone = 0,
  kHello = 1,           // agent -> collector, session.proto
  kWelcome = 2,         // collector -> agent
  kBatch = 3,           // agent -> collector, batch.proto
  kGoodbye = 4,         // agent -> collector
  kWritten = 5,         // collector -> agent
  kThrottle = 6,        // collector -> agent
  kControlRequest = 7,  // command line -> agent, control.proto
  kControlAnswer = 8,   // agent -> command line
  kTargetEnded = 9,     // `stepagent run` -> collector, session.proto
};

struct FrameHeader {
  uint8_t type = 0;
  uint8_t version = kFrameVersion;
  uint16_t flags = 0;
  uint32_t payload_bytes = 0;
  uint32_t crc32c = 0;
  uint64_t sequence = 0;
};

inline void WriteHeader(const FrameHeader& h, unsigned char* out) {
  std::memcpy(out, &kFrameMagic, 4);
  out[4] = h.type;
  out[5] = h.version;
  std::memcpy(out + 6, &h.flags, 2);
  std::memcpy(out + 8, &h.payload_bytes, 4);
  std::memcpy(out + 12, &h.crc32c, 4);
  std::memcpy(out + 16, &h.sequence, 8);
}

// False when the bytes cannot be a header (magic or version). `in` holds kFrameHeaderBytes.
[[nodiscard]] inline bool ParseHeader(const unsigned char* in, FrameHeader* h) {
  uint32_t magic;
  std::memcpy(&magic, in, 4);
  if (magic != kFrameMagic || in[5] != kFrameVersion) return false;
  h->type = in[4];
  h->version = in[5];
  std::memcpy(&h->flags, in + 6, 2);
  std::memcpy(&h->payload_bytes, in + 8, 4);
  std::memcpy(&h->crc32c, in + 12, 4);
  std::memcpy(&h->sequence, in + 16, 8);
  return true;
}

}  // namespace stepagent::proto
