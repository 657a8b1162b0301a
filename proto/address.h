#pragma once
// Where sockets live: control sockets of agents, the socket of a run's collector.
//
// Purpose: one rule for agent, collector and command line. In STEPAGENT_RUNTIME_DIR if set, else in
// $XDG_RUNTIME_DIR/stepagent, else an abstract name, which needs no writable folder. A path that
// does not fit into sun_path falls back to the abstract name.
//   folder:    <dir>/agent.<pid>.<session>       <dir>/collector.<run>
//   abstract:  @stepagent/<uid>/agent.<pid>.<session>   @stepagent/<uid>/collector.<run>
// Thread rule: pure, but for ListAgents, which reads directories and /proc/net/unix.
// Failure rule: empty results instead of errors; permission is checked by peer credentials on
// connect, never by names.
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::proto {

struct SocketAddress {
  sockaddr_un raw{};
  socklen_t length = 0;
  [[nodiscard]] bool IsAbstract() const { return raw.sun_path[0] == '\0'; }
  [[nodiscard]] std::string Text() const;  // path, or "@name" for abstract ones
};

// A path, or "@name". nullopt: empty or too long.
[[nodiscard]] std::optional<SocketAddress> AddressFromText(std::string_view text);

struct RuntimeDirs {
  std::string stepagent_runtime_dir;  // STEPAGENT_RUNTIME_DIR, "" unset
  std::string xdg_runtime_dir;        // XDG_RUNTIME_DIR, "" unset
};
[[nodiscard]] RuntimeDirs RuntimeDirsFromEnvironment(char* const* environment);

// The folder sockets go into, "" when the abstract name is to be used. Does not create it.
[[nodiscard]] std::string SocketFolder(const RuntimeDirs& dirs);
// Creates the folder (0700) when needed; false: use the abstract name.
[[nodiscard]] bool EnsureSocketFolder(const std::string& folder);

[[nodiscard]] SocketAddress AgentAddress(const std::string& folder, uid_t uid, pid_t pid,
                                         std::string_view session);
[[nodiscard]] SocketAddress CollectorAddress(const std::string& folder, uid_t uid,
                                             std::string_view run);

struct AgentEntry {
  pid_t pid = 0;
  std::string session;
  SocketAddress address;
};
// Agents that can be reached from here: the folders of `dirs` and of this uid (all users' for root),
// and abstract names. Dead ones may be among them.
[[nodiscard]] std::vector<AgentEntry> ListAgents(const RuntimeDirs& dirs, uid_t uid);

}  // namespace stepagent::proto
