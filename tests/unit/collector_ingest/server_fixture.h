#pragma once
// A server on a socket of its own, and an agent that blocks: what the tests of the server share.
//
// Thread rule: the server runs on a thread of the fixture. Failure rule: a missing answer fails the
// test after a generous wait.
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/null_sink.h"

#include "collector/ingest/frame_reader.h"
#include "collector/ingest/listen.h"
#include "collector/ingest/server.h"
#include "tests/support/batch_factory.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent::ingest {

namespace fs = std::filesystem;
using test::BatchFactory;
using test::TemporaryFolder;

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int kPatienceMs = 30'000;

// A blocking agent.
class Client {
 public:
  explicit Client(const proto::SocketAddress& address) {
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_connected_ =
        connect(fd_, reinterpret_cast<const sockaddr*>(&address.raw), address.length) == 0;
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool Send(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  // Until there is something to receive, which stays there.
  void AwaitAnswer() const {
    pollfd p{fd_, POLLIN, 0};
    poll(&p, 1, kPatienceMs);
  }
  // False at the end of the connection.
  bool Receive(spool::RawFrame* frame) {
    while (reader_.Next(frame) != FrameReader::Result::kFrame) {
      pollfd p{fd_, POLLIN, 0};
      if (poll(&p, 1, kPatienceMs) <= 0) return ADD_FAILURE() << "no answer", false;
      char bytes[4096];
      const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) return false;
      reader_.Feed(bytes, static_cast<size_t>(n));
    }
    return true;
  }
  v1::Welcome Welcome() {
    spool::RawFrame frame;
    v1::Welcome welcome;
    if (!Receive(&frame)) return welcome;
    EXPECT_EQ(frame.header.type, static_cast<uint8_t>(proto::FrameType::kWelcome));
    EXPECT_TRUE(welcome.ParseFromString(frame.payload));
    return welcome;
  }
  v1::Written Written() {
    spool::RawFrame frame;
    v1::Written written;
    if (!Receive(&frame)) return ADD_FAILURE() << "connection ended", written;
    EXPECT_EQ(frame.header.type, static_cast<uint8_t>(proto::FrameType::kWritten));
    EXPECT_TRUE(written.ParseFromString(frame.payload));
    return written;
  }
  bool IsClosedByPeer() {
    spool::RawFrame frame;
    return !Receive(&frame);
  }
  [[nodiscard]] bool is_connected() const { return is_connected_; }

 private:
  int fd_ = -1;
  bool is_connected_ = false;
  FrameReader reader_;
};

class ServerTest : public testing::Test {
 protected:
  void Start() {
    address_ = *proto::AddressFromText(folder_.path() + "/socket");
    ASSERT_EQ(listener_.Open(address_), Listener::Result::kListening);
    config_.listen_socket = listener_.TakeSocket();
    config_.out = Out();
    config_.log =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
    server_ = std::make_unique<Server>(config_);
    thread_ = std::thread([this] { status_ = server_->Run(); });
  }
  void StopAndJoin() {
    if (!thread_.joinable()) return;
    server_->Stop();
    thread_.join();
  }
  void TearDown() override { StopAndJoin(); }
  [[nodiscard]] std::string Out() const { return folder_.path() + "/out"; }
  [[nodiscard]] static nlohmann::json Manifest(const std::string& session_dir) {
    return nlohmann::json::parse(test::ReadFile(session_dir + "/cycle-0000/manifest.json"));
  }
  // Polls a condition of the file system: the collector works on its own threads.
  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < kPatienceMs / 10; ++i) {
      if (condition()) return true;
      poll(nullptr, 0, 10);
    }
    return false;
  }

  TemporaryFolder folder_;
  proto::SocketAddress address_;
  Listener listener_;
  ServerConfig config_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  std::atomic<int> status_{-1};
};

}  // namespace stepagent::ingest
