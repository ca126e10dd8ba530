#include "core/trace/streamer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"

namespace lockstep {

using SteadyClock = std::chrono::steady_clock;

namespace {

constexpr std::size_t longest_answer = 1024;

}  // namespace

/// The connection that sends one rank's file to the viewer: closed -> connecting -> asked (hello
/// sent) -> streaming, or refused, which is final.
struct Streamer::Connection {
  enum class State { closed, connecting, asked, streaming, refused };

  std::string hello;
  int file = -1;
  int socket = -1;
  State state = State::closed;
  bool ever_connected = false;
  std::size_t tried = 0;  ///< number of the viewer's addresses that failed since the last pause
  std::string answer;     ///< the viewer's answer, up to its newline
  std::string refusal;    ///< the viewer's message, if it refused the run
  off_t position = 0;     ///< file offset of the next byte to read
  std::string outgoing;   ///< read from the file, not yet sent
  SteadyClock::time_point retry_at{};
  SteadyClock::time_point last_progress = SteadyClock::now();

  ~Connection() {
    close_socket();
    if (file >= 0) ::close(file);
  }

  /// Connects to the next address of the viewer's host, without blocking.
  void begin_connect(const std::vector<SocketAddress>& addresses) {
    if (addresses.empty()) return close_socket();
    const SocketAddress& to = addresses[tried % addresses.size()];
    socket = ::socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const auto* address = reinterpret_cast<const sockaddr*>(&to.address);
    if (socket < 0 || (::connect(socket, address, to.size) != 0 && errno != EINPROGRESS))
      return try_next(addresses.size());
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    state = State::connecting;
  }

  /// After a failed connection, tries the next address immediately; after the last address, pauses
  /// before trying the first one again.
  void try_next(std::size_t addresses) {
    close_socket();
    if (++tried < addresses)
      retry_at = SteadyClock::now();
    else
      tried = 0;
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

  void on_writable(std::size_t addresses) {
    if (state == State::connecting) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return try_next(addresses);
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
    // A viewer sends nothing after its answer, so a peer that sends more is not a viewer.
    if (count <= 0 || state != State::asked) return close_socket();
    answer.append(buffer, static_cast<std::size_t>(count));
    const auto end = answer.find('\n');
    if (end == std::string::npos && answer.size() > longest_answer) return close_socket();
    if (end == std::string::npos) return;
    if (answer.starts_with("refused")) {
      refusal = answer.substr(0, end);
      close_socket();
      state = State::refused;
      return;
    }
    constexpr std::string_view resume = "resume ";
    const char* number = answer.data() + resume.size();
    std::int64_t from = -1;
    if (!answer.starts_with(resume) ||
        std::from_chars(number, answer.data() + end, from).ptr != answer.data() + end || from < 0)
      return close_socket();
    last_progress = SteadyClock::now();
    position = from;
    state = State::streaming;
  }
};

void Streamer::check_address(const std::string& viewer) {
  ViewerAddress{viewer};
}

Streamer::Streamer(const std::string& viewer, std::string token)
    : viewer_(viewer), token_(std::move(token)) {
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

void Streamer::work() {
  while (!stop_) {
    // Read before the connections are listed: none is added after finish().
    const bool complete = complete_;
    std::vector<Connection*> connections;
    {
      std::lock_guard lock{mutex_};
      for (const auto& each : connections_) connections.push_back(each.get());
    }
    std::vector<pollfd> polled{{wake_[0], POLLIN, 0}};
    std::vector<Connection*> owners{nullptr};
    bool all_done = true;
    bool is_deaf = false;
    const auto now = SteadyClock::now();
    for (Connection* connection : connections) {
      Connection& c = *connection;
      if (c.state == Connection::State::closed && now >= c.retry_at) {
        if (const auto* addresses = viewer_.addresses()) c.begin_connect(*addresses);
      }
      // There is no viewer, or it has read nothing for too long since finish() was called. (Before
      // finish(), there may have been nothing to read.)
      const SteadyClock::time_point since = std::max(c.last_progress, finish_began_.load());
      const bool stalled = now - since > std::chrono::duration<double>(patience_seconds_);
      const bool absent = !c.ever_connected && c.state == Connection::State::closed &&
                          c.tried == 0 && !viewer_.is_looking_up();
      const bool given_up = absent || c.state == Connection::State::refused || stalled;
      if (!c.all_sent()) {
        if (!given_up) all_done = false;
        is_deaf = is_deaf || c.socket >= 0;
      }
      if (c.socket < 0) continue;
      const int events = POLLIN | (c.wants_to_write() ? POLLOUT : 0);
      polled.push_back({c.socket, static_cast<short>(events), 0});
      owners.push_back(&c);
    }
    if (complete && all_done) {
      if (is_deaf)
        print_error("the viewer has not read the whole trace; the run's files have it\n");
      stop_ = true;
      return;
    }
    ::poll(polled.data(), polled.size(), complete ? 20 : 100);
    char drained[256];
    while (::read(wake_[0], drained, sizeof drained) > 0) {
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
      Connection& c = *owners[i];
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
          c.state != Connection::State::connecting)
        c.on_readable();
      if (c.state == Connection::State::refused && !std::exchange(refusal_printed_, true))
        print_error("the viewer refused this run: {}\n", excerpt(c.refusal, longest_answer));
      if (c.socket >= 0 && (polled[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
        c.on_writable(viewer_.count());
    }
  }
}

}  // namespace lockstep
