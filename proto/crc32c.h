#pragma once
// CRC-32C (Castagnoli), the checksum of a frame's payload.
//
// Purpose: tell a cut or damaged frame from a whole one, in the socket and in raw.steps.
// Thread rule: pure. Failure rule: cannot fail.
// Uses SSE4.2 or the ARMv8 instruction where the processor has it (checked at run time on x86).
#include <cstddef>
#include <cstdint>

namespace stepagent::proto {

[[nodiscard]] uint32_t Crc32c(const void* data, size_t bytes, uint32_t seed = 0);

}  // namespace stepagent::proto
