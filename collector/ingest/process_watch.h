#pragma once
// Is the process behind a connection still there?
//
// Purpose: a connection that vanished may come back, a process that died will not.
// Thread rule: pure but for /proc.
// Failure rule: a process that cannot be seen (another pid namespace) is "unknown".
#include <cstdint>

#include <sys/types.h>

namespace stepagent::ingest {

struct PeerProcess {
  pid_t pid = 0;  // 0: not visible from here
  uid_t uid = static_cast<uid_t>(-1);
  uint64_t start_ticks = 0;  // tells a reused pid apart
};
enum class Life : uint8_t { kAlive, kDead, kUnknown };

// Who is at the other end of a connected Unix socket.
[[nodiscard]] PeerProcess PeerOf(int socket);
[[nodiscard]] Life LifeOf(const PeerProcess& process);

}  // namespace stepagent::ingest
