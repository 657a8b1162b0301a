// What frames do: Hello opens or continues a session, the rest goes to its pipeline.
#include <algorithm>
#include <chrono>

#include "collector/ingest/server_impl.h"
#include "collector/spool/names.h"

namespace stepagent::ingest {
namespace {

// Frames of one session waiting to be taken in, and cycles waiting to be written. Beyond, its
// socket is not read: the agent's own queue fills and counts.
constexpr uint64_t kMaxQueuedBytes = uint64_t{64} << 20;
constexpr size_t kMaxPendingCycles = 4;
constexpr size_t kMaxUntold = 1000;
// Launchers whose word is kept: each is used within seconds, when its child's session is closed.
constexpr size_t kMaxEnded = 256;
constexpr size_t kLongestSessionId = 64;

int64_t WallNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Ids come from outside and become part of names.
bool IsUsableId(const std::string& id) {
  return !id.empty() && id.size() <= kLongestSessionId && spool::SafeName(id) == id;
}

// The highest protocol both sides speak, 0 for none.
uint32_t Negotiate(const v1::Hello& hello) {
  const uint32_t highest = std::min(hello.protocol(), proto::kProtocol);
  const uint32_t lowest = std::max(hello.protocol_min(), proto::kProtocolMin);
  return highest >= lowest ? highest : 0;
}

bool TakeIn(SessionPipeline* pipeline, const spool::RawFrame& frame) {
  switch (static_cast<proto::FrameType>(frame.header.type)) {
    case proto::FrameType::kBatch:
      return pipeline->OnBatch(frame, SteadyNowNs());
    case proto::FrameType::kGoodbye:
      return pipeline->OnGoodbye(frame);
    default:
      pipeline->OnHello(frame);
      return true;
  }
}

}  // namespace

bool Server::Impl::OnFrame(const Connection& connection, spool::RawFrame frame) {
  const auto type = static_cast<proto::FrameType>(frame.header.type);
  if (!connection->is_greeted()) {
    if (type == proto::FrameType::kTargetEnded) return OnTargetEnded(connection, frame);
    if (type == proto::FrameType::kHello) return OnHello(connection, std::move(frame));
    connection->Close("a frame before Hello");
    return false;
  }
  const Session session = Find(connection->session_id);
  const bool is_wanted = type == proto::FrameType::kBatch || type == proto::FrameType::kGoodbye ||
                         type == proto::FrameType::kHello;
  if (session == nullptr || !is_wanted) return true;  // unknown types are skipped (frame.h)
  return Hand(session, std::move(frame));
}

// From `stepagent run`: how its child ended. Its session may be waiting for just that.
bool Server::Impl::OnTargetEnded(const Connection& connection, const spool::RawFrame& frame) {
  v1::TargetEnded word;
  if (!word.ParseFromString(frame.payload)) {
    connection->Close("a TargetEnded that cannot be read");
    return false;
  }
  const auto folder = run_folders.find(word.run());
  v1::Welcome welcome;
  welcome.set_accepted(true);
  welcome.set_protocol(proto::kProtocol);
  welcome.set_collector_version(STEPAGENT_VERSION);
  if (folder != run_folders.end()) welcome.set_run_dir(folder->second);
  ended.push_back(std::move(word));
  if (ended.size() > kMaxEnded) ended.pop_front();
  connection->SetGreeted();
  connection->Send(proto::FrameType::kWelcome, welcome.SerializeAsString());
  connection->CloseWhenSent();
  CheckSessions(SteadyNowNs());
  return false;
}

const v1::TargetEnded* Server::Impl::EndOf(const LiveSession& session) const {
  const auto found = std::find_if(ended.rbegin(), ended.rend(), [&](const v1::TargetEnded& e) {
    return e.pid() == session.pid && e.run() == session.run;
  });
  return found == ended.rend() ? nullptr : &*found;
}

void Server::Impl::Refuse(const Connection& connection, const std::string& reason) {
  log->warn("refused process {}: {}", connection->peer().pid, reason);
  v1::Welcome welcome;
  welcome.set_accepted(false);
  welcome.set_reason(reason);
  welcome.set_protocol(proto::kProtocol);
  welcome.set_collector_version(STEPAGENT_VERSION);
  connection->Send(proto::FrameType::kWelcome, welcome.SerializeAsString());
  connection->CloseWhenSent();
}

bool Server::Impl::OnHello(const Connection& connection, spool::RawFrame frame) {
  auto hello = std::make_shared<v1::Hello>();
  if (!hello->ParseFromString(frame.payload) || !IsUsableId(hello->identity().session())) {
    Refuse(connection, "this Hello cannot be read");
    return false;
  }
  const uint32_t protocol = Negotiate(*hello);
  if (protocol == 0) {
    Refuse(connection, "the agent speaks protocol " + std::to_string(hello->protocol_min()) +
                           " to " + std::to_string(hello->protocol()) + ", this collector " +
                           std::to_string(proto::kProtocolMin) + " to " +
                           std::to_string(proto::kProtocol));
    return false;
  }
  connection->SetGreeted();
  connection->session_id = hello->identity().session();
  const Session known = Find(connection->session_id);
  if (known == nullptr) {
    if (is_stopping) return connection->Close("stopping"), false;
    OpenSession(connection, std::move(hello), std::move(frame), protocol);
    return false;  // until its folder is there
  }
  const bool can_go_on = known->state == LiveSession::State::kAttached ||
                         known->state == LiveSession::State::kDetached ||
                         known->state == LiveSession::State::kVanished;
  if (!can_go_on) {
    connection->Close("its session is just being opened or closed");  // it tries again
    return false;
  }
  log->debug("session {} goes on", known->id);
  Attach(known, connection);
  return Hand(known, std::move(frame));
}

void Server::Impl::OpenSession(const Connection& connection, std::shared_ptr<v1::Hello> hello,
                               spool::RawFrame frame, uint32_t protocol) {
  auto session = std::make_shared<LiveSession>(asio::make_strand(frame_pool.get_executor()),
                                               asio::make_strand(file_pool.get_executor()));
  session->id = connection->session_id;
  session->protocol = protocol;
  session->connection = connection;
  session->peer = connection->peer();
  session->run = hello->identity().run();
  session->pid = hello->pid();
  session->ppid = hello->ppid();
  session->launcher_watches = hello->launcher_watches();
  sessions[session->id] = session;
  EndPredecessors(session, session->peer);
  const bool is_agents_choice = config.honours_agents_out && !hello->out().empty();
  const std::string out = is_agents_choice ? hello->out() : config.out;
  auto raw = std::make_shared<spool::RawFrame>(std::move(frame));
  asio::post(session->frames, [this, session, hello, raw, out] {
    bool is_held = false;
    const std::string error = SessionPipeline::Open(
        &runs, out, *hello, *raw, WallNowNs(), HooksFor(session), &is_held, &session->pipeline);
    asio::post(io, [this, session, error, is_held] { OnOpened(session, error, is_held); });
  });
}

// One process, one session: exec ends the program that said hello before from the same process.
void Server::Impl::EndPredecessors(const Session& session, const PeerProcess& peer) {
  if (peer.pid <= 0) return;
  const auto all = sessions;
  for (const auto& [id, other] : all) {
    const bool is_away = other->state == LiveSession::State::kVanished ||
                         other->state == LiveSession::State::kDetached;
    const bool is_same = other->peer.pid == peer.pid && other->peer.start_ticks == peer.start_ticks;
    if (other != session && is_away && is_same) {
      FinishSession(other, "the process became another program");
    }
  }
}

void Server::Impl::OnOpened(const Session& session, const std::string& error, bool is_held) {
  const Connection connection = session->connection.lock();
  if (is_held) {
    sessions.erase(session->id);
    if (connection) connection->Close("its raw file is held");  // it tries again
    StopIfDone();
    return;
  }
  if (!error.empty()) {
    log->error("{}", error);
    had_write_error = true;
    sessions.erase(session->id);
    if (connection) Refuse(connection, error);
    StopIfDone();
    return;
  }
  run_folders[session->run] = session->pipeline->run().path;
  if (config.on_run) config.on_run(session->pipeline->run().path);
  log->info("session {}: {}", session->id, session->pipeline->session_dir());
  session->state = LiveSession::State::kAttached;
  if (connection == nullptr || connection->is_closed()) {
    session->state = LiveSession::State::kDetached;
    session->lost_at_ns = SteadyNowNs();
  } else {
    Attach(session, connection);
    connection->Resume();
  }
  if (is_stopping) FinishSession(session, "the collector was stopped");
}

void Server::Impl::Attach(const Session& session, const Connection& connection) {
  const Connection old = session->connection.lock();
  session->connection = connection;
  session->peer = connection->peer();
  session->state = LiveSession::State::kAttached;
  if (old && old != connection) old->Close("replaced by a new connection of its session");
  SendWelcome(session, connection);
  for (const v1::Written& written : session->untold) {
    connection->Send(proto::FrameType::kWritten, written.SerializeAsString());
  }
  session->untold.clear();
  if (session->throttle) {
    connection->Send(proto::FrameType::kThrottle, session->throttle->SerializeAsString());
  }
}

void Server::Impl::SendWelcome(const Session& session, const Connection& connection) {
  v1::Welcome welcome;
  welcome.set_accepted(true);
  welcome.set_protocol(session->protocol);
  welcome.set_session_dir(session->pipeline->session_dir());
  welcome.set_run_dir(session->pipeline->run().path);
  welcome.set_collector_version(STEPAGENT_VERSION);
  connection->Send(proto::FrameType::kWelcome, welcome.SerializeAsString());
}

PipelineHooks Server::Impl::HooksFor(const Session& session) {
  PipelineHooks hooks;
  const std::weak_ptr<LiveSession> weak = session;
  // Called on the session's strands; what touches the table is posted to the io thread.
  hooks.post_write = [files = session->files](std::function<void()> job) {
    asio::post(files, std::move(job));
  };
  hooks.on_written = [this, weak](const v1::Written& written) {
    asio::post(io, [this, weak, written] {
      const Session s = weak.lock();
      if (!s) return;
      const Connection connection = s->WelcomedConnection();
      if (connection) {
        connection->Send(proto::FrameType::kWritten, written.SerializeAsString());
        if (HasRoom(*s)) connection->Resume();
      } else if (s->untold.size() < kMaxUntold) {
        s->untold.push_back(written);
      }
    });
  };
  hooks.post_frame = [frames = session->frames](std::function<void()> job) {
    asio::post(frames, std::move(job));
  };
  hooks.on_throttle = [this, weak](const v1::Throttle& throttle) {
    asio::post(io, [weak, throttle] {
      const Session s = weak.lock();
      if (!s) return;
      s->throttle = throttle;
      const Connection connection = s->WelcomedConnection();
      if (connection) {
        connection->Send(proto::FrameType::kThrottle, throttle.SerializeAsString());
      }
    });
  };
  hooks.on_problem = [log = log](const std::string& line) { log->error("{}", line); };
  hooks.on_cycle = [log = log](const model::Cycle& cycle, const CycleOutput& output) {
    for (const std::string& file : output.files) {
      log->info("cycle {} rank {}: {}", cycle.index, cycle.session.rank, file);
    }
  };
  hooks.write_cycle = config.write_cycle;
  if (metrics_server) {
    hooks.write_cycle = [this](const model::Cycle& cycle, const CyclePlace& place) {
      return WriteAndCount(cycle, place);
    };
    hooks.on_losses = [this](const LossCounts& losses) { metrics.AddLosses(losses); };
    hooks.on_append_error = [this](const std::string& error) {
      metrics.AddSinkError("spool", error);
    };
    hooks.on_deferred = [this](uint32_t) { metrics.AddDeferred(); };
    hooks.on_report = [this](const v1::CycleReport& report) { metrics.AddReport(report); };
  }
  hooks.disk = config.disk;
  hooks.memory = config.memory;
  return hooks;
}

// On a strand of the file pool, which is joined before this goes.
CycleOutput Server::Impl::WriteAndCount(const model::Cycle& cycle, const CyclePlace& place) {
  CycleOutput output = config.write_cycle(cycle, place);
  metrics.AddCycle(cycle, output, WallNowNs());
  return output;
}

// However much the others have queued, a session of which nothing is queued is read.
bool Server::Impl::HasRoom(const LiveSession& session) const {
  const bool is_its_turn = session.queued_bytes == 0 || queued_bytes < most_queued_bytes;
  return is_its_turn && session.queued_bytes < kMaxQueuedBytes &&
         session.pipeline->pending_cycles() < kMaxPendingCycles;
}

bool Server::Impl::Hand(const Session& session, spool::RawFrame frame) {
  const uint64_t bytes = frame.payload.size();
  const auto type = static_cast<proto::FrameType>(frame.header.type);
  session->queued_bytes += bytes;
  queued_bytes += bytes;
  uint64_t damaged = 0;
  if (const Connection connection = session->connection.lock()) {
    damaged = connection->TakeDamaged();
  }
  auto shared = std::make_shared<spool::RawFrame>(std::move(frame));
  asio::post(session->frames, [this, session, shared, bytes, type, damaged] {
    for (uint64_t i = 0; i < damaged; ++i) session->pipeline->CountRefused();
    const bool is_taken = TakeIn(session->pipeline.get(), *shared);
    if (!is_taken) log->warn("session {}: a frame was refused", session->id);
    asio::post(io, [this, session, bytes, type] { OnHanded(session, bytes, type); });
  });
  return HasRoom(*session);
}

void Server::Impl::OnHanded(const Session& session, uint64_t bytes, proto::FrameType type) {
  session->queued_bytes -= bytes;
  queued_bytes -= bytes;
  if (type == proto::FrameType::kGoodbye && session->pipeline->said_goodbye()) {
    FinishSession(session, {});
    return;
  }
  if (!HasRoom(*session)) return;
  if (const Connection connection = session->connection.lock()) connection->Resume();
}

}  // namespace stepagent::ingest
