#pragma once
// The collector's listening socket.
//
// Purpose: one collector per address; a socket file whose owner is gone is replaced, one whose
// owner lives is left alone. Thread rule: used at start and end, one thread. Failure rule: nothing
// is removed before it was shown to be dead.
#include <string>

#include "proto/address.h"

namespace stepagent::ingest {

class Listener {
 public:
  enum class Result : uint8_t { kListening, kAlreadyServed, kFailed };

  Listener() = default;
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] Result Open(const proto::SocketAddress& address);
  // To be owned by the caller from here on.
  [[nodiscard]] int TakeSocket();
  // Removes the socket file and its lock; nobody new finds us from here on.
  void Close();
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  [[nodiscard]] Result Lock();
  [[nodiscard]] Result Bind(const proto::SocketAddress& address);

  std::string path_;  // "" for an abstract address
  std::string lock_path_;
  int lock_fd_ = -1, socket_ = -1;
  bool is_bound_ = false;
  std::string error_;
};

}  // namespace stepagent::ingest
