#include "core/trace/streamer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

using SteadyClock = std::chrono::steady_clock;

/// The connection that sends one rank's file to the viewer: closed -> connecting -> asked (hello
/// sent) -> streaming, or refused, which is final.
struct Streamer::Connection {
  enum class State { closed, connecting, asked, streaming, refused };

  std::string hello;
  int file = -1;
  int socket = -1;
  State state = State::closed;
  bool ever_connected = false;
  std::string answer;    ///< the viewer's answer, up to its newline
  std::string refusal;   ///< the viewer's message, if it refused the run
  off_t position = 0;    ///< file offset of the next byte to read
  std::string outgoing;  ///< read from the file, not yet sent
  SteadyClock::time_point retry_at{};
  SteadyClock::time_point last_progress = SteadyClock::now();

  ~Connection() {
    close_socket();
    if (file >= 0) ::close(file);
  }

  void close_socket() {
    if (socket >= 0) ::close(socket);
    socket = -1;
    state = State::closed;
    outgoing.clear();
    answer.clear();
    retry_at = SteadyClock::now() + std::chrono::milliseconds{200};
  }

  bool wants_to_write() {
    if (state == State::connecting) return true;
    if (state == State::asked) return !outgoing.empty();
    if (state == State::streaming) refill();
    return state == State::streaming && !outgoing.empty();
  }

  void refill() {
    if (!outgoing.empty()) return;
    outgoing.resize(256 * 1024);
    const ssize_t count = ::pread(file, outgoing.data(), outgoing.size(), position);
    outgoing.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    position += std::max<ssize_t>(count, 0);
  }

  bool all_sent() {
    if (state != State::streaming) return false;
    refill();
    return outgoing.empty();
  }

  void on_writable() {
    if (state == State::connecting) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return close_socket();
      state = State::asked;
      ever_connected = true;
      outgoing = hello;
    }
    while (!outgoing.empty()) {
      const ssize_t count = ::send(socket, outgoing.data(), outgoing.size(), MSG_NOSIGNAL);
      if (count < 0) {
        if (errno != EAGAIN && errno != EINTR) close_socket();
        return;
      }
      outgoing.erase(0, static_cast<std::size_t>(count));
      if (state != State::streaming) continue;
      last_progress = SteadyClock::now();
      refill();
    }
  }

  void on_readable() {
    char buffer[256];
    const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return close_socket();
    if (state != State::asked) return;
    answer.append(buffer, static_cast<std::size_t>(count));
    if (answer.find('\n') == std::string::npos) return;
    if (answer.rfind("refused", 0) == 0) {
      refusal = answer.substr(0, answer.find('\n'));
      close_socket();
      state = State::refused;
      return;
    }
    if (answer.rfind("resume ", 0) != 0) return close_socket();
    last_progress = SteadyClock::now();
    position = std::strtoll(answer.c_str() + 7, nullptr, 10);
    state = State::streaming;
  }
};

namespace {

/// Splits host and port; a port alone refers to this machine.
std::pair<std::string, std::string> host_and_port(const std::string& viewer) {
  const auto colon = viewer.rfind(':');
  std::string host = colon == std::string::npos ? "" : viewer.substr(0, colon);
  std::string port = colon == std::string::npos ? viewer : viewer.substr(colon + 1);
  if (host.empty()) host = "127.0.0.1";
  const bool digits =
      !port.empty() && port.size() <= 5 &&
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::atoi(port.c_str()) < 1 || std::atoi(port.c_str()) > 65535)
    throw UsageError(fmt::format("--view {}: give HOST:PORT, such as 127.0.0.1:7077", viewer));
  return {host, port};
}

}  // namespace

void Streamer::check_address(const std::string& viewer) {
  host_and_port(viewer);
}

Streamer::Streamer(const std::string& viewer, std::string token) : token_(std::move(token)) {
  std::tie(host_, port_) = host_and_port(viewer);
  if (::pipe2(wake_, O_NONBLOCK | O_CLOEXEC) != 0) throw RunError("can't create a pipe");
  thread_ = std::thread{[this] { work(); }};
}

Streamer::~Streamer() {
  stop_ = true;
  notify();
  thread_.join();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void Streamer::add(const std::filesystem::path& file, const std::string& hello) {
  auto connection = std::make_unique<Connection>();
  connection->file = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  connection->hello = hello;
  if (!token_.empty()) {
    // Insert the token into the line's last object, args: ...}} becomes ...,"token":"T"}}
    const auto end = connection->hello.rfind("}}");
    connection->hello.insert(end, ",\"token\":" + nlohmann::ordered_json(token_).dump());
  }
  {
    std::lock_guard lock{mutex_};
    connections_.push_back(std::move(connection));
  }
  notify();
}

void Streamer::notify() {
  const char byte = 0;
  [[maybe_unused]] const ssize_t ignored = ::write(wake_[1], &byte, 1);
}

void Streamer::finish(double patience_seconds) {
  patience_seconds_ = patience_seconds;
  finish_began_ = SteadyClock::now();
  complete_ = true;
  notify();
  while (!stop_) std::this_thread::sleep_for(std::chrono::milliseconds{2});
}

namespace {

/// Starts a non-blocking connect. Returns the socket, or -1 on failure.
int begin_connect(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int socket = -1;
  for (addrinfo* each = found; each != nullptr && socket < 0; each = each->ai_next) {
    socket = ::socket(each->ai_family, each->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    if (::connect(socket, each->ai_addr, each->ai_addrlen) != 0 && errno != EINPROGRESS) {
      ::close(socket);
      socket = -1;
    }
  }
  ::freeaddrinfo(found);
  if (socket >= 0) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return socket;
}

}  // namespace

void Streamer::work() {
  while (!stop_) {
    std::vector<pollfd> polled{{wake_[0], POLLIN, 0}};
    std::vector<Connection*> owners{nullptr};
    bool all_done = true;
    {
      std::lock_guard lock{mutex_};
      const auto now = SteadyClock::now();
      for (auto& connection : connections_) {
        Connection& c = *connection;
        if (c.state == Connection::State::closed && now >= c.retry_at) {
          c.socket = begin_connect(host_, port_);
          c.retry_at = now + std::chrono::milliseconds{200};
          if (c.socket >= 0) c.state = Connection::State::connecting;
        }
        // There is no viewer, or the viewer has read nothing for too long since finish() was
        // called. (Before that, there may have been nothing to read.)
        const SteadyClock::time_point since = std::max(c.last_progress, finish_began_.load());
        const bool given_up = (!c.ever_connected && c.state == Connection::State::closed) ||
                              c.state == Connection::State::refused ||
                              now - since > std::chrono::duration<double>(patience_seconds_);
        if (!c.all_sent() && !given_up) all_done = false;
        if (c.socket < 0) continue;
        const int events = POLLIN | (c.wants_to_write() ? POLLOUT : 0);
        polled.push_back({c.socket, static_cast<short>(events), 0});
        owners.push_back(&c);
      }
    }
    if (complete_ && all_done) {
      stop_ = true;
      return;
    }
    ::poll(polled.data(), polled.size(), complete_ ? 20 : 100);
    char drained[256];
    while (::read(wake_[0], drained, sizeof drained) > 0) {
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
      Connection& c = *owners[i];
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
          c.state != Connection::State::connecting)
        c.on_readable();
      if (c.state == Connection::State::refused && !std::exchange(refusal_printed_, true))
        fmt::print(stderr, "the viewer refused this run: {}\n", c.refusal);
      if (c.socket >= 0 && (polled[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
        c.on_writable();
    }
  }
}

}  // namespace lockstep
