#include "agent/drain/io/connection.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/core/phase_words.h"
#include "agent/drain/session_messages.h"
#include "proto/address.h"
#include "proto/limits.h"

namespace stepagent::drain::io {
namespace {

// A stopped collector accepts through its backlog and answers when it goes on; only one that hangs
// for ever is given up.
constexpr uint64_t kGreetingNs = 60'000'000'000;
// At exit nobody waits for a collector that is not there: this long for one that is just starting.
constexpr uint64_t kFinishTryNs = 500'000'000;
// The kernel caps it (net.core.wmem_max); larger than a batch saves wake-ups, nothing else.
constexpr int kSendBufferBytes = 1 << 20;

std::string ErrorText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);
}

void WakeAgent() { core::BumpAndWake(&core::g_words->wake); }

}  // namespace

Connection::Connection(IoState* state, uint64_t seed)
    : state_(state), version_(UINT64_MAX), reader_(proto::kMaxControlBytes), backoff_(seed) {}
Connection::~Connection() { Disconnect(); }

Connection::Orders Connection::TakeOrders() {
  Orders orders;
  {
    const std::lock_guard lock(state_->mutex);
    orders = {.has_work = frame_.is_active() || !state_->queue.empty(),
              .is_wanted = state_->is_wanted,
              .is_finishing = state_->is_finishing};
    if (state_->collector_version == version_) return orders;
    version_ = state_->collector_version;
    address_ = state_->collector;
    state_->status.refusal.clear();
    state_->status.failing_since_ns = 0;
  }
  Disconnect();
  stage_ = State::kClosed;
  failing_since_ns_ = 0;
  return orders;
}

void Connection::Advance(uint64_t now_ns) {
  const Orders orders = TakeOrders();
  const bool wanted = orders.has_work || (orders.is_wanted && !orders.is_finishing);
  if (stage_ == State::kRefused) {
    if (orders.has_work) DropQueued();
    return;
  }
  if (stage_ == State::kClosed) {
    if (!wanted || address_.empty()) {
      next_ns_ = 0;
      return;
    }
    // At the end nobody waits for a slow back-off to pass.
    if (orders.is_finishing && next_ns_ > now_ns + Backoff::kQuickLastNs) next_ns_ = now_ns;
    if (now_ns < next_ns_) return;
    TryConnect(now_ns);
    if (stage_ == State::kClosed) return;
  }
  if (stage_ == State::kGreeting && now_ns >= next_ns_) {
    return Failed(now_ns, "no answer to the greeting");
  }
  WriteSome(now_ns);
  if (stage_ != State::kReady || wants_write() || orders.is_wanted) return;
  bool is_empty;
  {
    const std::lock_guard lock(state_->mutex);
    is_empty = state_->queue.empty();
  }
  if (!is_empty) return;
  Disconnect();
  failing_since_ns_ = 0;
}

void Connection::TryConnect(uint64_t now_ns) {
  const auto address = proto::AddressFromText(address_);
  if (!address) return Refuse("not a socket address: " + address_);
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Failed(now_ns, ErrorText(errno));
  setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address->raw), address->length) != 0) {
    return Failed(now_ns, ErrorText(errno));
  }
  std::string hello;
  {
    const std::lock_guard lock(state_->mutex);
    hello = state_->hello;
    state_->status.connected = true;
  }
  reader_.Reset();
  hello_.Begin(static_cast<uint8_t>(proto::FrameType::kHello), 0, std::move(hello));
  stage_ = State::kGreeting;
  next_ns_ = now_ns + kGreetingNs;
}

void Connection::Failed(uint64_t now_ns, const std::string& why) {
  // A collector that welcomes us and then hangs up at once must not be tried every few
  // milliseconds: only a connection that lived for a while ends an outage.
  const bool lived = stage_ == State::kReady && now_ns - ready_since_ns_ >= Backoff::kQuickNs;
  Disconnect();
  if (failing_since_ns_ == 0 || lived) {
    failing_since_ns_ = now_ns;
    said_so_ = false;
    backoff_.Reset(now_ns);
  }
  next_ns_ = now_ns + backoff_.NextDelay(now_ns);
  const std::string line = "collector " + address_ + ": " + why;
  {
    const std::lock_guard lock(state_->mutex);
    state_->status.last_error = line;
    state_->status.failing_since_ns = failing_since_ns_;
  }
  if (!said_so_ && backoff_.IsSlow(now_ns)) {
    said_so_ = true;
    SayLine(line + "; trying again, what is lost meanwhile is counted");
  }
}

void Connection::Disconnect() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  hello_.Clear();
  frame_.Rewind();
  next_ns_ = 0;
  if (stage_ != State::kRefused) stage_ = State::kClosed;
  const std::lock_guard lock(state_->mutex);
  state_->status.connected = state_->status.accepted = false;
}

bool Connection::NextFrame() {
  if (stage_ != State::kReady) return false;
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.empty()) return false;
  OutFrame frame = std::move(state_->queue.front());
  state_->queue.pop_front();
  state_->sending = frame.content;
  frame_.Begin(frame.type, frame.sequence, std::move(frame.payload));
  return true;
}

void Connection::FrameSent(size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->status.bytes_sent += bytes;
  if (state_->is_abandoned) {
    // It was just going out when Finish gave up, and was not lost after all.
    for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
      state_->losses.records[kind] -=
          std::min(state_->losses.records[kind], state_->given_up.records[kind]);
    }
    state_->given_up = BatchContent{};
    return;
  }
  state_->queued_bytes -= bytes;
  state_->sending = BatchContent{};
}

void Connection::WriteSome(uint64_t now_ns) {
  while (true) {
    const bool is_hello = hello_.is_active();
    if (!is_hello && stage_ != State::kReady) return;
    if (!is_hello && !frame_.is_active() && !NextFrame()) return;
    FrameWriter& writer = is_hello ? hello_ : frame_;
    const size_t bytes = writer.bytes();
    const StreamResult result = writer.Write(fd_);
    if (result == StreamResult::kBlocked) return;
    if (result != StreamResult::kDone) return Failed(now_ns, ErrorText(writer.error()));
    if (!is_hello) FrameSent(bytes);
  }
}

void Connection::OnReadable(uint64_t now_ns) {
  while (fd_ >= 0) {
    switch (reader_.Next(fd_)) {
      case StreamResult::kDone:
        OnFrame(now_ns);
        break;
      case StreamResult::kBlocked:
        return;
      case StreamResult::kClosed:
        return Failed(now_ns, "closed the connection");
      case StreamResult::kGarbage:
        return Failed(now_ns, "sent what is no frame");
      case StreamResult::kError:
        return Failed(now_ns, ErrorText(reader_.error()));
    }
  }
}

void Connection::OnFrame(uint64_t now_ns) {
  switch (static_cast<proto::FrameType>(reader_.header().type)) {
    case proto::FrameType::kWelcome:
      return OnWelcome(now_ns);
    case proto::FrameType::kWritten:
      if (auto data = DecodeWritten(reader_.payload())) {
        const std::lock_guard lock(state_->mutex);
        if (state_->written.size() < kMaxWritten) {
          state_->written.push_back({.cycle = data->cycle,
                                     .complete = data->complete,
                                     .files = std::move(data->files),
                                     .error = std::move(data->error)});
        }
      }
      return WakeAgent();
    case proto::FrameType::kThrottle:
      if (auto data = DecodeThrottle(reader_.payload())) {
        const std::lock_guard lock(state_->mutex);
        state_->status.stopped_by_collector = data->stop;
        state_->status.throttle_reason = data->reason;
      }
      return WakeAgent();
    default:
      return;  // of a newer collector: skipped
  }
}

void Connection::OnWelcome(uint64_t now_ns) {
  const auto welcome = DecodeWelcome(reader_.payload());
  if (!welcome || stage_ != State::kGreeting) return;
  if (!welcome->accepted) return Refuse(welcome->reason);
  if (welcome->protocol < proto::kProtocolMin || welcome->protocol > proto::kProtocol) {
    return Refuse("it speaks protocol " + std::to_string(welcome->protocol) + ", not ours");
  }
  stage_ = State::kReady;
  next_ns_ = 0;
  ready_since_ns_ = now_ns;
  {
    const std::lock_guard lock(state_->mutex);
    state_->status.accepted = true;
    state_->status.session_dir = welcome->session_dir;
    state_->status.run_dir = welcome->run_dir;
    state_->status.last_error.clear();
    state_->status.failing_since_ns = 0;
  }
  WakeAgent();
  WriteSome(now_ns);
}

void Connection::Refuse(const std::string& reason) {
  Disconnect();
  stage_ = State::kRefused;
  {
    const std::lock_guard lock(state_->mutex);
    state_->status.refusal = reason;
    state_->status.last_error = "collector " + address_ + " refused: " + reason;
  }
  SayLine("collector " + address_ + " refused: " + reason);
  DropQueued();
}

void Connection::DropQueued() {
  frame_.Clear();
  const std::lock_guard lock(state_->mutex);
  state_->LoseQueued();
}

void Connection::GiveUp() {
  Disconnect();
  DropQueued();
}

bool Connection::IsDone(uint64_t now_ns, uint64_t finishing_since_ns) {
  if (stage_ == State::kRefused || address_.empty()) return true;
  if (stage_ == State::kClosed && now_ns - finishing_since_ns > kFinishTryNs) return true;
  const std::lock_guard lock(state_->mutex);
  return !wants_write() && state_->queue.empty();
}

void Connection::SayLine(const std::string& line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->lines.size() < kMaxLines) state_->lines.push_back(line);
  }
  WakeAgent();
}

}  // namespace stepagent::drain::io
