#pragma once
// `/metrics` over HTTP, as little of it as a scraper needs.
//
// Purpose: one request per connection, GET /metrics answered, all else refused; on a loopback
// address or a Unix socket, never elsewhere.
// Thread rule: everything on the io context it was made with. Failure rule: a peer that is slow,
// talks too long or breaks off loses its own connection.
#include <sys/stat.h>

#include <asio.hpp>
#include <functional>
#include <memory>
#include <string>

namespace stepagent::ingest {

// The file of a listening Unix socket: taken away at the end, if it is still the one that was made.
class MetricsSocketFile {
 public:
  MetricsSocketFile() = default;
  ~MetricsSocketFile();
  MetricsSocketFile(const MetricsSocketFile&) = delete;
  MetricsSocketFile& operator=(const MetricsSocketFile&) = delete;
  // After Listen; an address that is no path has no file.
  void Note(const std::string& address);

 private:
  std::string path_;
  struct stat made_ {};
};

class MetricsServer {
 public:
  // `address`: PORT, 127.0.0.1:PORT, [::1]:PORT, localhost:PORT, or an absolute path. A listening
  // descriptor, or -1 and *error in one line.
  [[nodiscard]] static int Listen(const std::string& address, std::string* error);

  // Takes the descriptor. `render`: the page's text.
  MetricsServer(asio::io_context* io, int listening, std::function<std::string()> render);

 private:
  using Protocol = asio::generic::stream_protocol;
  struct Peer;
  void Accept();
  void Read(const std::shared_ptr<Peer>& peer);
  void Answer(const std::shared_ptr<Peer>& peer);

  asio::io_context* const io_;
  asio::basic_socket_acceptor<Protocol> acceptor_;
  const std::function<std::string()> render_;
  // Shared: a peer that is still open outlives this, until the io context drops it.
  const std::shared_ptr<size_t> peers_ = std::make_shared<size_t>(0);
};

}  // namespace stepagent::ingest
