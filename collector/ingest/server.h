#pragma once
// stepcollector's heart: many agents at once on one Unix socket.
//
// Purpose: accepts, knows sessions by id across connections, hands frames to each session's
// pipeline, answers, and decides when a session is over and when the collector is. Thread rule: Run
// blocks its thread, which is the only one to touch sockets and the table of sessions. Each session
// has a strand for its frames and one for its files on two small pools, so a slow disk or a large
// trace never holds up another session. Stop may be called from any thread. Failure rule: whatever
// an agent sends or fails to send ends at most its own session.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collector/ingest/pipeline.h"
#include "spdlog/logger.h"

namespace stepagent::ingest {

struct ServerConfig {
  int listen_socket = -1;
  std::string out;
  bool honours_agents_out = false;  // a run's own collector: Hello.out wins
  std::optional<int64_t> idle_exit_ns;
  int64_t hello_timeout_ns = 10'000'000'000;
  int64_t frame_timeout_ns = 30'000'000'000;
  int64_t return_timeout_ns = 60'000'000'000;  // a living agent in the middle of a cycle
  int metrics_socket = -1;                     // of MetricsServer::Listen; -1: no metrics
  std::string version;
  std::shared_ptr<MemoryBudget> memory;  // null: no bound
  size_t max_connections = 0;            // 0: as the descriptor limit allows
  std::shared_ptr<spdlog::logger> log;
  // Replaceable in tests.
  decltype(PipelineHooks::write_cycle) write_cycle = WriteCycle;
  DiskGuard::Probe disk = SpaceOf;
  // Called when a run's folder is known (for the collector's own log).
  std::function<void(const std::string& run_path)> on_run;
};

class Server {
 public:
  explicit Server(ServerConfig config);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // 0, or 1 when something could not be written.
  [[nodiscard]] int Run();
  // Finishes every session as far as it came, then Run returns. Async-signal-unsafe.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepagent::ingest
