#include "viz/data/live_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_hello = 64 * 1024;
constexpr int poll_milliseconds = 100;
constexpr int most_accepted = 32;  // before the next poll of the connections
constexpr std::chrono::milliseconds accept_pause{100};
constexpr std::size_t most_past_runs = 1000;

/// Compares two texts, in a time that does not depend on the position of a mismatch.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

/// The parts of a hello that the server needs; `rank` is -1 if the line is not a hello.
struct Hello {
  int rank = -1;
  std::string run, token;
};

Hello parse_hello(std::string line) {
  while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
  const auto event = nlohmann::json::parse(line, nullptr, false);
  const auto args = event.is_object() ? event.value("args", nlohmann::json{}) : nlohmann::json{};
  Hello hello;
  if (!args.is_object() || !args.contains("rank") || !args["rank"].is_number_integer()) {
    return hello;
  }
  const auto rank = args["rank"].get<std::int64_t>();
  if (rank < 0 || rank > std::numeric_limits<int>::max()) return hello;
  const auto text = [&](const char* key) {
    return args.contains(key) && args[key].is_string() ? args[key].get<std::string>() : "";
  };
  return {.rank = static_cast<int>(rank), .run = text("run"), .token = text("token")};
}

}  // namespace

struct LiveServer::Connection {
  int socket = -1;
  Clock::time_point since = Clock::now();
  int rank = -1;     ///< set by the hello; -1 before
  std::string text;  ///< the hello, up to its newline
  bool closed = false;

  explicit Connection(int socket_) : socket(socket_) {}
  bool is_stranger() const { return rank < 0 && !closed; }
  void close() {
    if (socket >= 0) ::close(socket);
    socket = -1;
    closed = true;
  }
  ~Connection() { close(); }
};

LiveServer::LiveServer(const Endpoint& endpoint, Admission admission, std::function<void()> wake)
    : endpoint_(endpoint), admission_(std::move(admission)), wake_(std::move(wake)) {
  if (::pipe2(wake_pipe_, O_CLOEXEC | O_NONBLOCK) != 0) throw RunError("can't make a pipe");
  try {
    const Listener listener = listen_at(endpoint_, !admission_.token.empty());
    listener_ = listener.socket;
    endpoint_.port = listener.port;
  } catch (...) {
    for (int each : wake_pipe_) ::close(each);
    throw;
  }
  thread_ = std::thread{[this] { serve(); }};
}

LiveServer::~LiveServer() {
  stop_ = true;
  [[maybe_unused]] const auto ignored = ::write(wake_pipe_[1], "x", 1);
  thread_.join();
  connections_.clear();
  for (int each : {listener_, wake_pipe_[0], wake_pipe_[1]}) ::close(each);
}

std::optional<Arrival> LiveServer::take() {
  Arrival arrival;
  {
    std::lock_guard lock{mutex_};
    if (ready_.empty()) return std::nullopt;
    arrival = {run_number_, ready_.front(), {}};
    ready_.pop_front();
    Inbox& inbox = inboxes_[arrival.rank];
    if (!inbox.pieces.empty()) {
      arrival.bytes = std::move(inbox.pieces.front());
      inbox.pieces.pop_front();
      inbox.bytes -= arrival.bytes.size();
    }
    if (!inbox.pieces.empty()) ready_.push_back(arrival.rank);
  }
  [[maybe_unused]] const auto ignored = ::write(wake_pipe_[1], "x", 1);  // there is room again
  return arrival;
}

bool LiveServer::waiting() const {
  std::lock_guard lock{mutex_};
  return !ready_.empty();
}

void LiveServer::push(int rank, std::string_view bytes) {
  {
    std::lock_guard lock{mutex_};
    Inbox& inbox = inboxes_[rank];
    inbox.bytes += bytes.size();
    if (!inbox.pieces.empty() && inbox.pieces.back().size() + bytes.size() <= piece) {
      inbox.pieces.back() += bytes;
    } else if (!bytes.empty()) {
      inbox.pieces.emplace_back(bytes);
    }
    if (std::find(ready_.begin(), ready_.end(), rank) == ready_.end()) ready_.push_back(rank);
  }
  wake_();
}

/// Returns how many bytes to read from the connection now, at most `piece`.
std::size_t LiveServer::room(const Connection& connection) const {
  if (connection.rank < 0) return piece;
  std::lock_guard lock{mutex_};
  const auto found = inboxes_.find(connection.rank);
  const std::size_t used = found != inboxes_.end() ? found->second.bytes : 0;
  const auto ranks = static_cast<std::size_t>(std::max<int>(connected_, 1));
  const std::size_t share = std::max(piece, most_buffered / ranks);
  return std::min(piece, share - std::min(share, used));
}

void LiveServer::serve() {
  std::vector<pollfd> polled;
  while (!stop_) {
    drop_late_strangers();
    std::erase_if(connections_, [](const auto& each) { return each->closed; });
    connected_ = static_cast<int>(std::count_if(connections_.begin(), connections_.end(),
                                                [](const auto& each) { return each->rank >= 0; }));
    const bool accepts = Clock::now() >= accept_again_;
    polled.assign({{wake_pipe_[0], POLLIN, 0}, {accepts ? listener_ : -1, POLLIN, 0}});
    for (const auto& each : connections_) {
      polled.push_back({room(*each) == 0 ? -1 : each->socket, POLLIN, 0});
    }
    if (::poll(polled.data(), polled.size(), poll_milliseconds) <= 0) continue;
    char drained[256];
    while (::read(wake_pipe_[0], drained, sizeof drained) > 0) {
    }
    for (std::size_t i = 0; i + 2 < polled.size(); ++i) {
      Connection& connection = *connections_[i];
      if (polled[i + 2].revents == 0 || connection.closed) continue;
      try {
        read(connection);
      } catch (const std::exception&) {  // for example, out of memory; the rank will reconnect
        connection.close();
      }
    }
    if (polled[1].revents != 0) accept_some();
  }
}

void LiveServer::accept_some() {
  const auto begin = Clock::now();
  for (int i = 0; i < most_accepted; ++i) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // File descriptors or memory have run out. A connection that was just accepted may hold a
      // hello, so read it first.
      Connection* oldest = oldest_stranger();
      if (oldest == nullptr) accept_again_ = begin + accept_pause;  // the listener stays readable
      if (oldest == nullptr || oldest->since >= begin) return;
      oldest->close();
      continue;
    }
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const auto strangers = std::count_if(connections_.begin(), connections_.end(),
                                         [](const auto& each) { return each->is_stranger(); });
    if (static_cast<std::size_t>(strangers) >= admission_.most_strangers) {
      oldest_stranger()->close();
    }
    connections_.push_back(std::make_unique<Connection>(socket));
  }
}

LiveServer::Connection* LiveServer::oldest_stranger() const {
  const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                   [](const auto& each) { return each->is_stranger(); });
  return oldest != connections_.end() ? oldest->get() : nullptr;
}

void LiveServer::drop_late_strangers() {
  const auto late = Clock::now() - admission_.hello_within;
  for (const auto& each : connections_) {
    if (each->is_stranger() && each->since < late) each->close();
  }
}

void LiveServer::read(Connection& connection) {
  thread_local std::string buffer(piece, '\0');
  const std::size_t most = room(connection);
  if (most == 0) return;
  const ssize_t count = ::recv(connection.socket, buffer.data(), most, 0);
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

/// Returns why the sender of this token may not show its run; empty if it may.
std::string LiveServer::objection(const std::string& token, int socket) {
  if (!admission_.token.empty()) {
    return same_secret(token, admission_.token) ? "" : "wrong token";
  }
  const std::string advice = "; give the viewer and the run the same token";
  const auto user = sockets_.user_of_peer(socket);
  if (!user) return "the viewer can't tell which user this run belongs to" + advice;
  return *user == admission_.user ? "" : "the viewer belongs to another user" + advice;
}

bool LiveServer::greet(Connection& connection) {
  const Hello hello = parse_hello(std::exchange(connection.text, {}));
  std::string why;
  if (hello.rank < 0) {
    why = "the first line is not a rank's hello";
  } else if (why = objection(hello.token, connection.socket); why.empty()) {
    if (std::find(past_runs_.begin(), past_runs_.end(), hello.run) != past_runs_.end()) {
      why = "the viewer shows a later run";
    }
  }
  if (!why.empty()) {
    refuse(connection, why);
    return false;
  }
  const bool new_run = run_number_ == 0 || hello.run != run_;
  for (const auto& other : connections_) {
    if (other.get() != &connection && other->rank >= 0 && (new_run || other->rank == hello.rank)) {
      other->close();  // from the previous run, or an old, broken connection from this rank
    }
  }
  if (new_run) begin_run(hello.run);
  connection.rank = hello.rank;
  const std::string answer = "resume " + std::to_string(received_[hello.rank]) + "\n";
  if (::send(connection.socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) connection.close();
  push(hello.rank, "");  // announces the run and the rank before any data arrives
  return !connection.closed;
}

void LiveServer::begin_run(const std::string& run) {
  if (run_number_ > 0) past_runs_.push_back(run_);
  if (past_runs_.size() > most_past_runs) past_runs_.pop_front();
  run_ = run;
  received_.clear();
  std::lock_guard lock{mutex_};
  ++run_number_;
  inboxes_.clear();
  ready_.clear();
}

void LiveServer::refuse(Connection& connection, const std::string& why) {
  ++refused_;
  const std::string answer = "refused: " + why + "\n";
  [[maybe_unused]] const auto sent =
      ::send(connection.socket, answer.data(), answer.size(), MSG_NOSIGNAL);
  // Bytes left unread would make close() reset the connection, perhaps before the answer arrives.
  thread_local std::string unread(piece, '\0');
  [[maybe_unused]] const auto read = ::recv(connection.socket, unread.data(), unread.size(), 0);
  connection.close();
  wake_();
}

}  // namespace lockstep::viz
