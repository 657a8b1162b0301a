#include "collector/ingest/server.h"

#include <algorithm>
#include <chrono>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collector/ingest/server_impl.h"

namespace stepagent::ingest {
namespace {

// While a session may die or come back this is how late we notice; otherwise a second is enough.
constexpr std::chrono::milliseconds kQuickTick{100};
constexpr std::chrono::milliseconds kSlowTick{1000};
// Descriptors for files, folders and the C library beside connections.
constexpr size_t kDescriptorsKept = 32;
// A process in another pid namespace cannot be watched: in the middle of a cycle, and between
// cycles.
constexpr int64_t kUnseenProcessNs = 10'000'000'000;
constexpr int64_t kUnseenAwayNs = 600'000'000'000;
// The launcher tells how its child ended within milliseconds; one that is stopped is not waited
// for.
constexpr int64_t kLaunchersWordNs = 2'000'000'000;

// Only its parent learns how a process ended.
std::string EndWithoutWord(const LiveSession& session) {
  std::string why = "the process ended without a goodbye";
  if (session.launcher_watches) return why + "; its launcher did not say how";
  if (session.ppid > 1)
    why += "; its exit status went to its parent, process " + std::to_string(session.ppid);
  return why;
}

// As many descriptors as we may have; sessions use two each.
size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 16);
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t usable = limit.rlim_cur > 2 * kDescriptorsKept
                            ? static_cast<size_t>(limit.rlim_cur) - kDescriptorsKept
                            : static_cast<size_t>(limit.rlim_cur) / 2;
  return std::max<size_t>(usable / 2, 1);
}

}  // namespace

Server::Impl::Impl(ServerConfig c)
    : config(std::move(c)),
      log(config.log),
      file_pool(config.honours_agents_out ? 1 : 2),
      acceptor(io),
      tick(io),
      metrics(config.version) {
  if (config.metrics_socket >= 0) {
    metrics_server = std::make_unique<MetricsServer>(
        &io, config.metrics_socket, [this] { return metrics.Render(WhatIsNow()); });
  }
  if (config.memory != nullptr) most_queued_bytes = config.memory->QueueBytes();
  if (config.max_connections == 0) config.max_connections = RaiseDescriptorLimit();
  acceptor.assign(asio::local::stream_protocol(), config.listen_socket);
  spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  idle_since_ns = SteadyNowNs();
}

Metrics::Now Server::Impl::WhatIsNow() const {
  Metrics::Now now;
  now.attached = connections.size();
  now.queued_bytes = queued_bytes;
  for (const auto& [id, session] : sessions) {
    if (session->state != LiveSession::State::kOpening && session->pipeline)
      now.sessions.push_back(session->pipeline->live());
  }
  return now;
}

Server::Server(ServerConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}

Server::~Server() {
  impl_->frame_pool.join();
  impl_->file_pool.join();
  if (impl_->spare_fd >= 0) close(impl_->spare_fd);
}

int Server::Run() {
  impl_->Accept();
  impl_->ArmTick();
  impl_->io.run();
  return impl_->had_write_error ? 1 : 0;
}

void Server::Stop() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->BeginStop(); });
}

void Server::Impl::Accept() {
  acceptor.async_accept([this](const asio::error_code& error, AgentSession::Socket socket) {
    if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (error == asio::error::no_descriptors || error.value() == ENFILE) {
      RefuseForLackOfDescriptors();
    } else if (!error) {
      Admit(std::move(socket));
    }
    Accept();
  });
}

// The connection would wait in the backlog for ever and keep us spinning: take it with the spare
// descriptor and close it.
void Server::Impl::RefuseForLackOfDescriptors() {
  if (spare_fd >= 0) close(spare_fd);
  asio::error_code ignored;
  AgentSession::Socket socket(io);
  acceptor.accept(socket, ignored);
  socket.close(ignored);
  spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  log->warn("out of descriptors: a connection was refused");
}

void Server::Impl::Admit(AgentSession::Socket socket) {
  AgentSession::Owner owner;
  owner.on_frame = [this](const Connection& c, spool::RawFrame frame) {
    return OnFrame(c, std::move(frame));
  };
  owner.on_end = [this](const Connection& c, const std::string& why) { OnEnd(c, why); };
  auto connection =
      std::make_shared<AgentSession>(std::move(socket), std::move(owner), SteadyNowNs());
  connections.insert(connection);
  const uid_t uid = connection->peer().uid;
  if (uid != geteuid() && uid != 0) {
    log->warn("refused a connection of user {} (process {})", uid, connection->peer().pid);
    connection->Close("another user");
    return;
  }
  if (connections.size() > config.max_connections) {
    Refuse(connection, "the collector has no descriptors left for another session");
    return;
  }
  connection->Start();
}

void Server::Impl::OnEnd(const Connection& connection, const std::string& why) {
  connections.erase(connection);
  if (!why.empty()) {
    log->debug("connection of process {}: {}", connection->peer().pid, why);
  }
  const Session session = Find(connection->session_id);
  if (session == nullptr || session->connection.lock() != connection) return;
  session->connection.reset();
  if (session->state != LiveSession::State::kAttached) return;
  session->state = LiveSession::State::kVanished;
  session->lost_at_ns = SteadyNowNs();
  if (is_stopping) return;
  // After what it sent last was taken in: was it in the middle of something?
  asio::post(session->frames, [this, session] {
    const bool is_open = session->pipeline->HasOpenCycle();
    asio::post(io, [this, session, is_open] {
      if (session->state != LiveSession::State::kVanished) return;
      if (!is_open) session->state = LiveSession::State::kDetached;
      idle_since_ns = SteadyNowNs();
      CheckSessions(SteadyNowNs());
      ArmTick();
    });
  });
}

void Server::Impl::ArmTick() {
  const bool is_leaving = config.idle_exit_ns.has_value() && sessions.empty();
  const bool is_quick =
      is_leaving || std::any_of(sessions.begin(), sessions.end(), [](const auto& s) {
        return s.second->state == LiveSession::State::kVanished;
      });
  tick.expires_after(is_quick ? kQuickTick : kSlowTick);
  tick.async_wait([this](const asio::error_code& error) {
    if (!error) Tick();
  });
}

void Server::Impl::Tick() {
  const int64_t now_ns = SteadyNowNs();
  CheckConnections(now_ns);
  CheckSessions(now_ns);
  CheckIdle(now_ns);
  if (!io.stopped()) ArmTick();
}

void Server::Impl::CheckConnections(int64_t now_ns) {
  const std::vector<Connection> all(connections.begin(), connections.end());
  for (const Connection& connection : all) {
    const int64_t since = connection->WaitingSinceNs();
    const int64_t limit =
        connection->is_greeted() ? config.frame_timeout_ns : config.hello_timeout_ns;
    if (since == 0 || now_ns - since < limit) continue;
    log->warn("process {} was silent in the middle of {}: its connection is closed",
              connection->peer().pid, connection->is_greeted() ? "a frame" : "the handshake");
    connection->Close("silent");
  }
}

void Server::Impl::CheckSessions(int64_t now_ns) {
  const auto all = sessions;
  for (const auto& [id, session] : all) {
    const bool is_vanished = session->state == LiveSession::State::kVanished;
    if (!is_vanished && session->state != LiveSession::State::kDetached) continue;
    const Life life = LifeOf(session->peer);
    const int64_t gone_ns = now_ns - session->lost_at_ns;
    if (const v1::TargetEnded* end = EndOf(*session)) {
      FinishSession(session, {}, end);
    } else if (life == Life::kDead) {
      const bool awaits_word = session->launcher_watches && gone_ns < kLaunchersWordNs;
      if (!awaits_word) FinishSession(session, EndWithoutWord(*session));
    } else if (life == Life::kUnknown &&
               gone_ns > (is_vanished ? kUnseenProcessNs : kUnseenAwayNs)) {
      FinishSession(session, "the connection was lost");
    } else if (is_vanished && gone_ns > config.return_timeout_ns) {
      FinishSession(session, "the connection was lost and the agent did not come back");
    }
  }
}

// A session whose agent is merely away between two windows still holds the collector.
void Server::Impl::CheckIdle(int64_t now_ns) {
  if (!sessions.empty() || !connections.empty()) idle_since_ns = now_ns;
  if (!config.idle_exit_ns || now_ns - idle_since_ns < *config.idle_exit_ns) return;
  log->info("idle: leaving");
  BeginStop();
}

void Server::Impl::FinishSession(const Session& session, const std::string& why,
                                 const v1::TargetEnded* ended) {
  using State = LiveSession::State;
  if (session->state == State::kFinishing || session->state == State::kOver ||
      session->state == State::kOpening) {
    return;
  }
  session->state = State::kFinishing;
  std::optional<v1::TargetEnded> end;
  if (ended != nullptr) end = *ended;
  asio::post(session->frames, [this, session, why, end] {
    if (end) session->pipeline->OnTargetEnded(*end);
    session->pipeline->Finish(
        why, [this, session] { asio::post(io, [this, session] { OnFinished(session); }); });
  });
}

void Server::Impl::OnFinished(const Session& session) {
  session->state = LiveSession::State::kOver;
  had_write_error = had_write_error || session->pipeline->had_write_error();
  log->info("session {} is over: {}", session->id, session->pipeline->session_dir());
  if (const Connection connection = session->connection.lock()) connection->CloseWhenSent();
  const auto found = sessions.find(session->id);
  if (found != sessions.end() && found->second == session) sessions.erase(found);
  idle_since_ns = SteadyNowNs();
  StopIfDone();
}

void Server::Impl::CloseListener() {
  asio::error_code ignored;
  acceptor.close(ignored);
}

void Server::Impl::BeginStop() {
  is_stopping = true;
  CloseListener();
  const auto all = sessions;
  for (const auto& [id, session] : all) FinishSession(session, "the collector was stopped");
  StopIfDone();
}

void Server::Impl::StopIfDone() {
  if (!is_stopping || !sessions.empty()) return;
  tick.cancel();
  const std::vector<Connection> all(connections.begin(), connections.end());
  for (const Connection& connection : all) connection->CloseWhenSent();
  io.stop();
}

}  // namespace stepagent::ingest
