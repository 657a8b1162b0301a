#include "collector/ingest/process_watch.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/socket.h>

namespace stepagent::ingest {
namespace {

struct Stat {
  bool is_there = false;
  char state = '?';
  uint64_t start_ticks = 0;
};

Stat ReadStat(pid_t pid) {
  Stat stat;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return stat;
  const size_t name_end = text.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return stat;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  // Field 3 is the state, 22 the start time (proc(5)).
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3) stat.state = field[0];
    if (number == 22) stat.start_ticks = std::strtoull(field.c_str(), nullptr, 10);
  }
  stat.is_there = true;
  return stat;
}

}  // namespace

PeerProcess PeerOf(int socket) {
  PeerProcess peer;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  if (peer.pid > 0) peer.start_ticks = ReadStat(peer.pid).start_ticks;
  return peer;
}

Life LifeOf(const PeerProcess& process) {
  if (process.pid <= 0) return Life::kUnknown;
  const Stat stat = ReadStat(process.pid);
  const bool is_dead = !stat.is_there || stat.state == 'Z' || stat.state == 'X' ||
                       (process.start_ticks != 0 && stat.start_ticks != process.start_ticks);
  return is_dead ? Life::kDead : Life::kAlive;
}

}  // namespace stepagent::ingest
