#pragma once
// What the server knows of one session.
//
// Purpose: state that outlives connections.
// Thread rule: the io thread; the two strands run the pipeline's jobs.
// Failure rule: plain data.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio.hpp>

#include "collector/ingest/agent_session.h"
#include "collector/ingest/pipeline.h"

namespace stepagent::ingest {

struct LiveSession {
  enum class State : uint8_t {
    kOpening,    // its folder is being made
    kAttached,   // has a connection
    kDetached,   // connection closed between cycles; the agent comes back when it has more
    kVanished,   // connection lost in the middle of a cycle
    kFinishing,  // the last files are being written
    kOver,
  };
  using Strand = asio::strand<asio::thread_pool::executor_type>;

  LiveSession(Strand frames_strand, Strand files_strand)
      : frames(std::move(frames_strand)), files(std::move(files_strand)) {}

  // Whom to tell now. None while the session is being opened: then there is no pipeline yet, the
  // agent awaits its Welcome first, and a raw file being replayed may already finish cycles.
  [[nodiscard]] std::shared_ptr<AgentSession> WelcomedConnection() const {
    return state == State::kOpening ? nullptr : connection.lock();
  }

  std::string id;
  State state = State::kOpening;
  Strand frames, files;
  std::shared_ptr<SessionPipeline> pipeline;
  std::weak_ptr<AgentSession> connection;
  PeerProcess peer;
  uint32_t protocol = 0;
  std::string run;                // the run's id
  uint32_t pid = 0, ppid = 0;     // as its Hello says
  bool launcher_watches = false;  // its parent will tell how it ended
  uint64_t queued_bytes = 0;  // frames posted and not taken in yet
  int64_t lost_at_ns = 0;
  std::vector<v1::Written> untold;  // no connection when they happened
  std::optional<v1::Throttle> throttle;
};

}  // namespace stepagent::ingest
