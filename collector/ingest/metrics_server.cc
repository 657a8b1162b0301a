#include "collector/ingest/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>

namespace stepagent::ingest {
namespace {

constexpr size_t kMostRequestBytes = 8192;
constexpr std::chrono::seconds kPeerTime{5};
// A scraper or two; more are a mistake or an attack.
constexpr size_t kMostPeers = 16;
constexpr int kBacklog = 16;

struct Address {
  sockaddr_storage raw{};
  socklen_t length = 0;
};

std::optional<Address> PathAddress(const std::string& path) {
  Address address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.raw);
  if (path.size() >= sizeof local->sun_path) return std::nullopt;
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.c_str(), path.size() + 1);
  address.length = sizeof *local;
  return address;
}

std::optional<Address> LoopbackAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  const std::string port_text = colon == std::string::npos ? text : text.substr(colon + 1);
  uint16_t port = 0;
  const char* end = port_text.data() + port_text.size();
  const auto [parsed, problem] = std::from_chars(port_text.data(), end, port);
  if (problem != std::errc() || parsed != end) return std::nullopt;
  Address address;
  if (host == "[::1]") {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address.raw);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    six->sin6_addr = in6addr_loopback;
    address.length = sizeof *six;
    return address;
  }
  if (host != "127.0.0.1" && host != "localhost") return std::nullopt;
  auto* four = reinterpret_cast<sockaddr_in*>(&address.raw);
  four->sin_family = AF_INET;
  four->sin_port = htons(port);
  four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof *four;
  return address;
}

// A socket that nobody listens on any more is in the way; one that answers, or a file, is not ours.
bool IsLeftOver(const std::string& path, const Address& address) {
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0 || !S_ISSOCK(st.st_mode)) return false;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  const bool refused = connect(fd, raw, address.length) != 0 && errno == ECONNREFUSED;
  close(fd);
  return refused;
}

}  // namespace

MetricsSocketFile::~MetricsSocketFile() {
  struct stat now {};
  if (path_.empty() || lstat(path_.c_str(), &now) != 0) return;
  if (now.st_ino == made_.st_ino && now.st_dev == made_.st_dev) unlink(path_.c_str());
}

void MetricsSocketFile::Note(const std::string& address) {
  if (address.starts_with('/') && lstat(address.c_str(), &made_) == 0) path_ = address;
}

struct MetricsServer::Peer {
  Peer(asio::io_context* io, std::shared_ptr<size_t> peers,
       asio::basic_stream_socket<Protocol> taken)
      : count(std::move(peers)), socket(std::move(taken)), timer(*io) {
    ++*count;
  }
  ~Peer() { --*count; }
  const std::shared_ptr<size_t> count;
  asio::basic_stream_socket<Protocol> socket;
  asio::steady_timer timer;
  std::string request, answer;
};

int MetricsServer::Listen(const std::string& text, std::string* error) {
  const bool is_path = text.starts_with('/');
  const auto address = is_path ? PathAddress(text) : LoopbackAddress(text);
  if (!address) {
    *error = "'" + text + "': allowed: PORT, 127.0.0.1:PORT, [::1]:PORT or an absolute path";
    return -1;
  }
  const auto* raw = reinterpret_cast<const sockaddr*>(&address->raw);
  if (is_path && IsLeftOver(text, *address)) unlink(text.c_str());
  const int fd = socket(raw->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  if (!is_path) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const mode_t mask = umask(S_IRWXG | S_IRWXO);
  const bool is_bound = fd >= 0 && bind(fd, raw, address->length) == 0 && listen(fd, kBacklog) == 0;
  const int failed = errno;
  umask(mask);
  if (is_bound) return fd;
  *error = text + ": cannot listen: " + std::strerror(failed);
  if (fd >= 0) close(fd);
  return -1;
}

MetricsServer::MetricsServer(asio::io_context* io, int listening,
                             std::function<std::string()> render)
    : io_(io), acceptor_(*io), render_(std::move(render)) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  getsockname(listening, reinterpret_cast<sockaddr*>(&own), &length);
  acceptor_.assign(Protocol(own.ss_family, 0), listening);
  Accept();
}

void MetricsServer::Accept() {
  acceptor_.async_accept(
      [this](const asio::error_code& error, asio::basic_stream_socket<Protocol> socket) {
        if (error == asio::error::operation_aborted) return;
        if (!error && *peers_ < kMostPeers) {
          const auto peer = std::make_shared<Peer>(io_, peers_, std::move(socket));
          peer->timer.expires_after(kPeerTime);
          peer->timer.async_wait([weak = std::weak_ptr<Peer>(peer)](const asio::error_code& why) {
            asio::error_code ignored;
            if (const auto late = weak.lock(); late && !why) late->socket.close(ignored);
          });
          Read(peer);
        }
        Accept();
      });
}

void MetricsServer::Read(const std::shared_ptr<Peer>& peer) {
  asio::async_read_until(peer->socket, asio::dynamic_buffer(peer->request, kMostRequestBytes),
                         "\r\n\r\n", [this, peer](const asio::error_code& error, size_t) {
                           if (!error) Answer(peer);
                         });
}

void MetricsServer::Answer(const std::shared_ptr<Peer>& peer) {
  const std::string line = peer->request.substr(0, peer->request.find('\r'));
  const bool is_get = line.starts_with("GET ");
  const bool is_page = line.starts_with("GET /metrics ") || line.starts_with("GET /metrics?");
  const std::string body = is_page ? render_() : "only GET /metrics is served\n";
  peer->answer = std::string("HTTP/1.1 ") +
                 (is_page  ? "200 OK"
                  : is_get ? "404 Not Found"
                           : "405 Method Not Allowed") +
                 "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" +
                 (is_get ? "" : "Allow: GET\r\n") +
                 "Content-Length: " + std::to_string(body.size()) +
                 "\r\nConnection: close\r\n\r\n" + body;
  asio::async_write(peer->socket, asio::buffer(peer->answer),
                    [peer](const asio::error_code&, size_t) { peer->timer.cancel(); });
}

}  // namespace stepagent::ingest
