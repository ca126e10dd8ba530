#include "viz/data/live_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_hello = 64 * 1024;
constexpr std::size_t read_size = 256 * 1024;
constexpr std::size_t most_queued = 64u << 20;  // above this, data waits in the ranks' files
constexpr int poll_milliseconds = 100;

/// Compares in time that does not depend on the position of a mismatch.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string where(const Endpoint& endpoint) {
  return endpoint.host + ":" + std::to_string(endpoint.port);
}

/// Opens a listening socket. Throws UsageError with a suggestion.
int listen_at(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (const int error = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found)) {
    throw UsageError("--listen " + where(endpoint) + ": " + ::gai_strerror(error) +
                     "; give an address of this machine, such as 127.0.0.1:7077");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{found, &::freeaddrinfo};
  const int socket =
      ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol);
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket >= 0 && ::bind(socket, found->ai_addr, found->ai_addrlen) == 0 &&
      ::listen(socket, SOMAXCONN) == 0) {
    return socket;
  }
  const int error = errno;
  if (socket >= 0) ::close(socket);
  if (error == EADDRINUSE) {
    throw UsageError("port " + port +
                     " is in use, perhaps by another viewer; close that program, or " +
                     "choose another port: --listen " + std::to_string(endpoint.port + 1) +
                     " (and --view " + std::to_string(endpoint.port + 1) + " for the run)");
  }
  throw UsageError("--listen " + where(endpoint) + ": " + std::strerror(error) +
                   "; try --listen 127.0.0.1:7077");
}

}  // namespace

Endpoint parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  const auto colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (!host.empty()) endpoint.host = host;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc{} || end != port.data() + port.size() || endpoint.port < 0 ||
      endpoint.port > 65535) {
    throw UsageError("--listen " + text + ": give [HOST:]PORT, such as 7077 or 0.0.0.0:7077");
  }
  return endpoint;
}

bool is_loopback(const Endpoint& endpoint) {
  return endpoint.host == "localhost" || endpoint.host == "::1" ||
         endpoint.host.starts_with("127.");
}

struct LiveServer::Connection {
  int socket = -1;
  int rank = -1;     ///< set by the hello; -1 before
  std::string text;  ///< the hello, up to its newline
  bool closed = false;

  void close() {
    if (socket >= 0) ::close(socket);
    socket = -1;
    closed = true;
  }
  ~Connection() { close(); }
};

LiveServer::LiveServer(const Endpoint& endpoint, std::string token, std::function<void()> wake)
    : endpoint_(endpoint), token_(std::move(token)), wake_(std::move(wake)) {
  if (!is_loopback(endpoint_) && token_.empty()) {
    throw UsageError("--listen " + where(endpoint_) +
                     " opens the viewer to other machines; add --token T and give the run "
                     "--view-token T, or listen on this machine only: --listen " +
                     std::to_string(endpoint_.port));
  }
  listener_ = listen_at(endpoint_);
  endpoint_.port = port_of(listener_);
  if (::pipe2(stop_pipe_, O_CLOEXEC | O_NONBLOCK) != 0) throw RunError("can't make a pipe");
  thread_ = std::thread{[this] { serve(); }};
}

LiveServer::~LiveServer() {
  stop_ = true;
  [[maybe_unused]] const auto ignored = ::write(stop_pipe_[1], "x", 1);
  thread_.join();
  connections_.clear();
  for (int each : {listener_, stop_pipe_[0], stop_pipe_[1]}) ::close(each);
}

std::vector<Arrival> LiveServer::take() {
  std::lock_guard lock{mutex_};
  queued_bytes_ = 0;
  return std::exchange(queue_, {});
}

void LiveServer::push(int rank, std::string_view bytes) {
  {
    std::lock_guard lock{mutex_};
    queued_bytes_ += bytes.size();
    if (!queue_.empty() && queue_.back().rank == rank && queue_.back().run == run_number_) {
      queue_.back().bytes.append(bytes);
    } else {
      queue_.push_back({run_number_, rank, std::string{bytes}});
    }
  }
  wake_();
}

void LiveServer::serve() {
  std::vector<pollfd> polled;
  while (!stop_) {
    std::erase_if(connections_, [](const auto& each) { return each->closed; });
    connected_ = static_cast<int>(std::count_if(connections_.begin(), connections_.end(),
                                                [](const auto& each) { return each->rank >= 0; }));
    bool full = false;
    {
      std::lock_guard lock{mutex_};
      full = queued_bytes_ > most_queued;
    }
    polled.assign({{stop_pipe_[0], POLLIN, 0}, {listener_, POLLIN, 0}});
    for (const auto& each : connections_) {
      polled.push_back({each->socket, static_cast<short>(full ? 0 : POLLIN), 0});
    }
    const std::size_t known = connections_.size();
    if (::poll(polled.data(), polled.size(), full ? 1 : poll_milliseconds) <= 0) continue;
    if (polled[1].revents != 0) accept_all();
    for (std::size_t i = 0; i < known && !full; ++i) {
      if (polled[i + 2].revents != 0 && !connections_[i]->closed) read(*connections_[i]);
    }
  }
}

void LiveServer::accept_all() {
  for (;;) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) return;
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_.push_back(std::make_unique<Connection>());
    connections_.back()->socket = socket;
  }
}

void LiveServer::read(Connection& connection) {
  thread_local std::string buffer(read_size, '\0');
  const ssize_t count = ::recv(connection.socket, buffer.data(), buffer.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    connection.close();
    wake_();
    return;
  }
  std::string_view bytes{buffer.data(), static_cast<std::size_t>(count)};
  if (connection.rank < 0) {
    const auto newline = bytes.find('\n');
    connection.text.append(bytes.substr(0, newline));
    if (connection.text.size() > longest_hello) return refuse(connection, "the hello is too long");
    if (newline == std::string_view::npos || !greet(connection)) return;
    bytes.remove_prefix(newline + 1);
  }
  if (bytes.empty()) return;
  received_[connection.rank] += static_cast<std::int64_t>(bytes.size());
  push(connection.rank, bytes);
}

bool LiveServer::greet(Connection& connection) {
  std::string line = std::exchange(connection.text, {});
  while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
  const auto hello = nlohmann::json::parse(line, nullptr, false);
  const auto args = hello.is_object() ? hello.value("args", nlohmann::json{}) : nlohmann::json{};
  if (!args.is_object() || !args.contains("rank") || !args["rank"].is_number_integer() ||
      args["rank"].get<int>() < 0) {
    refuse(connection, "the first line is not a rank's hello");
    return false;
  }
  const auto text = [&](const char* key) {
    return args.contains(key) && args[key].is_string() ? args[key].get<std::string>() : "";
  };
  if (!token_.empty() && !same_secret(text("token"), token_)) {
    refuse(connection, "wrong token");
    return false;
  }
  const std::string run = text("run");
  if (std::find(past_runs_.begin(), past_runs_.end(), run) != past_runs_.end()) {
    refuse(connection, "the viewer shows a later run");
    return false;
  }
  const int rank = args["rank"].get<int>();
  const bool new_run = run_number_ == 0 || run != run_;
  if (new_run && run_number_ > 0) past_runs_.push_back(run_);
  for (const auto& other : connections_) {
    if (other.get() != &connection && other->rank >= 0 && (new_run || other->rank == rank)) {
      other->close();  // from the previous run, or a broken connection of this rank
    }
  }
  if (new_run) {
    run_ = run;
    received_.clear();
    std::lock_guard lock{mutex_};
    ++run_number_;
    queue_.clear();
    queued_bytes_ = 0;
  }
  connection.rank = rank;
  const std::string answer = "resume " + std::to_string(received_[rank]) + "\n";
  if (::send(connection.socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) connection.close();
  push(rank, "");  // announces the run and the rank before any data arrives
  return !connection.closed;
}

void LiveServer::refuse(Connection& connection, const std::string& why) {
  ++refused_;
  const std::string answer = "refused: " + why + "\n";
  [[maybe_unused]] const auto ignored =
      ::send(connection.socket, answer.data(), answer.size(), MSG_NOSIGNAL);
  connection.close();
  wake_();
}

}  // namespace lockstep::viz
