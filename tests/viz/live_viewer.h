#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "viz/data/feed/live_feed.h"
#include "viz/data/feed/live_server.h"

namespace lockstep::testing {

/// One rank's end of the connection.
class FakeRank {
 public:
  FakeRank() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit FakeRank(int port) : FakeRank() { connect(port); }
  ~FakeRank() { ::close(socket_); }
  FakeRank(FakeRank&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  FakeRank& operator=(FakeRank&&) = delete;

  void connect(int port) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval patience{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  int socket() const { return socket_; }
  /// Sends all bytes, but gives up if the viewer reads nothing for a minute.
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  /// Sends as many bytes as the connection accepts now, after a brief wait if it accepts none.
  /// Returns their number.
  std::size_t offer(std::string_view bytes) const {
    const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) return static_cast<std::size_t>(count);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return 0;
  }
  /// Reads up to the newline, or to the end of the connection.
  std::string line() const {
    std::string text;
    char c = 0;
    while (::recv(socket_, &c, 1, 0) == 1 && c != '\n') text += c;
    return text;
  }
  /// Returns whether the viewer closes the connection within a minute.
  bool is_closed() const {
    char c = 0;
    for (;;) {
      const auto count = ::recv(socket_, &c, 1, 0);
      if (count == 1) continue;
      return count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
  }

 private:
  int socket_;
};

/// The viewer's server and feed, without a window.
struct Viewer {
  explicit Viewer(viz::Admission admission = {}, viz::MemoryLimit limit = viz::MemoryLimit{})
      : server({.host = "127.0.0.1", .port = 0}, std::move(admission), [] {}),
        feed(server, timeline, limit) {}
  int port() const { return server.endpoint().port; }
  bool until(const std::function<bool()>& done) {
    for (int i = 0; i < 4000; ++i) {  // a minute
      progress = feed.pump(std::chrono::milliseconds{5});
      if (done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return false;
  }
  Timeline timeline;
  viz::LiveServer server;
  viz::LiveFeed feed;
  viz::LiveFeed::Progress progress;  ///< of the last pump
};

}  // namespace lockstep::testing
