#pragma once
// One connection of an agent: frames in, frames out.
//
// Purpose: the socket side of a session. What frames mean is the server's business.
// Thread rule: the io thread only.
// Failure rule: any error closes this connection and is told to the owner once; others go on.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio.hpp>

#include "collector/ingest/frame_reader.h"
#include "collector/ingest/process_watch.h"

namespace stepagent::ingest {

class AgentSession : public std::enable_shared_from_this<AgentSession> {
 public:
  using Socket = asio::local::stream_protocol::socket;
  struct Owner {
    // False: stop reading until Resume.
    std::function<bool(const std::shared_ptr<AgentSession>&, spool::RawFrame)> on_frame;
    // Once, when the connection is over; `why` is empty for an orderly end.
    std::function<void(const std::shared_ptr<AgentSession>&, const std::string& why)> on_end;
  };

  AgentSession(Socket socket, Owner owner, int64_t now_ns);

  void Start();
  void Resume();
  void Send(proto::FrameType type, const std::string& payload);
  // Sends what is queued, then closes.
  void CloseWhenSent();
  void Close(const std::string& why);

  // Since when nothing has moved although something is due: the Hello, or the rest of a frame.
  // 0 when nothing is due.
  [[nodiscard]] int64_t WaitingSinceNs() const;
  void Touch(int64_t now_ns) { last_byte_ns_ = now_ns; }
  void SetGreeted() { is_greeted_ = true; }
  [[nodiscard]] bool is_greeted() const { return is_greeted_; }
  [[nodiscard]] bool is_closed() const { return is_closed_; }
  [[nodiscard]] const PeerProcess& peer() const { return peer_; }
  [[nodiscard]] uint64_t TakeDamaged();

  // The session this connection belongs to, once it said Hello.
  std::string session_id;

 private:
  void Read();
  void ReadRest();
  void OnRead(const asio::error_code& error, size_t bytes);
  void Deliver();
  void Write();
  void StopWriting();

  Socket socket_;
  Owner owner_;
  PeerProcess peer_;
  FrameReader reader_;
  std::vector<char> in_;
  std::deque<std::string> out_;
  size_t out_bytes_ = 0;
  uint64_t out_sequence_ = 0, damaged_told_ = 0;
  int64_t last_byte_ns_ = 0;
  bool is_greeted_ = false, is_paused_ = false, is_reading_ = false, is_delivering_ = false;
  bool is_closed_ = false, closes_when_sent_ = false;
  bool is_mute_ = false;    // writing failed
  bool saw_reset_ = false;  // the peer left answers of ours unread; its data is still there
};

[[nodiscard]] int64_t SteadyNowNs();

}  // namespace stepagent::ingest
