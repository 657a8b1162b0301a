#include "collector/ingest/agent_session.h"

#include <chrono>

namespace stepagent::ingest {
namespace {

constexpr size_t kReadBytes = 256 * 1024;
// An agent that does not read its answers: they are dropped, it asks again or is told at the next.
constexpr size_t kMaxOutBytes = 4 << 20;

}  // namespace

int64_t SteadyNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

AgentSession::AgentSession(Socket socket, Owner owner, int64_t now_ns)
    : socket_(std::move(socket)),
      owner_(std::move(owner)),
      peer_(PeerOf(socket_.native_handle())),
      in_(kReadBytes),
      last_byte_ns_(now_ns) {}

void AgentSession::Start() { Read(); }

int64_t AgentSession::WaitingSinceNs() const {
  const bool is_due = !is_paused_ && (!is_greeted_ || reader_.IsMidFrame());
  return is_due ? last_byte_ns_ : 0;
}

uint64_t AgentSession::TakeDamaged() {
  const uint64_t now = reader_.damaged_frames();
  const uint64_t news = now - damaged_told_;
  damaged_told_ = now;
  return news;
}

void AgentSession::Read() {
  if (is_closed_ || is_paused_ || is_reading_) return;
  is_reading_ = true;
  if (saw_reset_) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->ReadRest(); });
    return;
  }
  socket_.async_read_some(asio::buffer(in_),
                          [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
                            self->OnRead(error, bytes);
                          });
}

// After a reset no event comes any more: what is left is asked for, not waited for.
void AgentSession::ReadRest() {
  asio::error_code error;
  size_t bytes = 0;
  if (!is_closed_) {
    socket_.non_blocking(true, error);
    if (!error) bytes = socket_.read_some(asio::buffer(in_), error);
  }
  if (error == asio::error::would_block) error = asio::error::eof;
  OnRead(error, bytes);
}

void AgentSession::OnRead(const asio::error_code& error, size_t bytes) {
  is_reading_ = false;
  if (is_closed_) return;
  // A peer that ends with answers of ours unread resets the connection: told once, and what it had
  // sent comes after.
  if (error == asio::error::connection_reset && !saw_reset_) {
    saw_reset_ = true;
    is_mute_ = true;
    return Read();
  }
  if (error) {
    const bool is_orderly = error == asio::error::eof && !reader_.IsMidFrame();
    return Close(is_orderly ? std::string() : error.message());
  }
  last_byte_ns_ = SteadyNowNs();
  reader_.Feed(in_.data(), bytes);
  Deliver();
}

void AgentSession::Deliver() {
  if (is_delivering_) return;
  is_delivering_ = true;
  while (!is_closed_ && !is_paused_) {
    spool::RawFrame frame;
    const FrameReader::Result result = reader_.Next(&frame);
    if (result == FrameReader::Result::kNeedMore) break;
    if (result == FrameReader::Result::kBroken) {
      Close(reader_.error());
      break;
    }
    if (!owner_.on_frame(shared_from_this(), std::move(frame))) is_paused_ = true;
  }
  is_delivering_ = false;
  Read();
}

void AgentSession::Resume() {
  if (!is_paused_ || is_closed_) return;
  is_paused_ = false;
  last_byte_ns_ = SteadyNowNs();
  Deliver();
}

void AgentSession::Send(proto::FrameType type, const std::string& payload) {
  if (is_closed_ || is_mute_ || out_bytes_ + payload.size() > kMaxOutBytes) return;
  out_.push_back(EncodeFrame(type, payload, out_sequence_++));
  out_bytes_ += out_.back().size();
  if (out_.size() == 1) Write();
}

void AgentSession::Write() {
  asio::async_write(socket_, asio::buffer(out_.front()),
                    [self = shared_from_this()](const asio::error_code& error, size_t) {
                      if (self->is_closed_) return;
                      self->out_bytes_ -= self->out_.front().size();
                      self->out_.pop_front();
                      if (error) return self->StopWriting();
                      if (!self->out_.empty()) return self->Write();
                      if (self->closes_when_sent_) self->Close({});
                    });
}

// The peer is gone, but what it sent before lies in the socket still: read on until its end.
void AgentSession::StopWriting() {
  is_mute_ = true;
  out_.clear();
  out_bytes_ = 0;
  if (closes_when_sent_) Close({});
}

void AgentSession::CloseWhenSent() {
  closes_when_sent_ = true;
  if (out_.empty()) Close({});
}

void AgentSession::Close(const std::string& why) {
  if (is_closed_) return;
  is_closed_ = true;
  asio::error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  socket_.close(ignored);
  owner_.on_end(shared_from_this(), why);
}

}  // namespace stepagent::ingest
