#pragma once
// The server's inside, split over server.cc (connections, life and death) and server_frames.cc
// (what frames do).
//
// Thread rule and failure rule: server.h.
#include <deque>
#include <map>
#include <set>

#include "collector/ingest/live_session.h"
#include "collector/ingest/metrics.h"
#include "collector/ingest/metrics_server.h"
#include "collector/ingest/server.h"

namespace stepagent::ingest {

struct Server::Impl {
  explicit Impl(ServerConfig c);

  using Connection = std::shared_ptr<AgentSession>;
  using Session = std::shared_ptr<LiveSession>;

  // Connections (server.cc).
  void Accept();
  void Admit(AgentSession::Socket socket);
  void RefuseForLackOfDescriptors();
  void OnEnd(const Connection& connection, const std::string& why);
  void Tick();
  void ArmTick();
  void CheckConnections(int64_t now_ns);
  void CheckSessions(int64_t now_ns);
  void CheckIdle(int64_t now_ns);
  // `ended`: how its process ended, where its launcher told.
  void FinishSession(const Session& session, const std::string& why,
                     const v1::TargetEnded* ended = nullptr);
  void OnFinished(const Session& session);
  void BeginStop();
  void StopIfDone();
  void CloseListener();

  // Frames (server_frames.cc).
  bool OnFrame(const Connection& connection, spool::RawFrame frame);
  bool OnHello(const Connection& connection, spool::RawFrame frame);
  void OpenSession(const Connection& connection, std::shared_ptr<v1::Hello> hello,
                   spool::RawFrame frame, uint32_t protocol);
  void OnOpened(const Session& session, const std::string& error, bool is_held);
  void Attach(const Session& session, const Connection& connection);
  void EndPredecessors(const Session& session, const PeerProcess& peer);
  void SendWelcome(const Session& session, const Connection& connection);
  void Refuse(const Connection& connection, const std::string& reason);
  bool OnTargetEnded(const Connection& connection, const spool::RawFrame& frame);
  [[nodiscard]] const v1::TargetEnded* EndOf(const LiveSession& session) const;
  bool Hand(const Session& session, spool::RawFrame frame);
  void OnHanded(const Session& session, uint64_t bytes, proto::FrameType type);
  [[nodiscard]] Metrics::Now WhatIsNow() const;
  [[nodiscard]] bool HasRoom(const LiveSession& session) const;
  PipelineHooks HooksFor(const Session& session);
  [[nodiscard]] CycleOutput WriteAndCount(const model::Cycle& cycle, const CyclePlace& place);
  Session Find(const std::string& id) {
    const auto found = sessions.find(id);
    return found == sessions.end() ? nullptr : found->second;
  }

  ServerConfig config;
  std::shared_ptr<spdlog::logger> log;
  // Before everything that may hold a strand of theirs; joined in ~Server.
  // A run's own collector shares cores and memory with the application: one cycle at a time.
  asio::thread_pool frame_pool{2}, file_pool;
  asio::io_context io;
  asio::local::stream_protocol::acceptor acceptor;
  asio::steady_timer tick;
  Metrics metrics;
  std::unique_ptr<MetricsServer> metrics_server;  // null: none asked for
  int spare_fd = -1;  // given up to be able to refuse when descriptors run out
  std::set<Connection> connections;
  std::map<std::string, Session> sessions;
  RunTable runs;
  uint64_t queued_bytes = 0, most_queued_bytes = UINT64_MAX;  // of all sessions
  std::map<std::string, std::string> run_folders;             // by the run's id
  std::deque<v1::TargetEnded> ended;                          // the last ones, oldest first
  int64_t idle_since_ns = 0;
  bool is_stopping = false, had_write_error = false;
};

}  // namespace stepagent::ingest
