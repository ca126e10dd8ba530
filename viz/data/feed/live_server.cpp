#include "viz/data/feed/live_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"
#include "viz/data/feed/hello.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_hello = 64 * 1024;
constexpr int poll_milliseconds = 100;
constexpr int most_accepted = 64;  // before the next poll of the connections
constexpr std::chrono::milliseconds accept_pause{100};
constexpr std::size_t most_past_runs = 1000;

}  // namespace

struct LiveServer::Connection {
  int socket = -1;
  Clock::time_point since = Clock::now();
  int rank = -1;          ///< set by the hello; -1 before
  std::string text;       ///< the hello, up to its newline
  std::string peer;       ///< the user or the address at the other end
  std::string objection;  ///< why that user may not show a run, whatever the hello says; or ""
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

LiveServer::Work LiveServer::work() const {
  return {.hellos = hellos_, .table_passes = table_passes_, .most_waiting = most_waiting_};
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
    // Ranks come first, so that strangers never delay their data.
    const auto strangers = std::ranges::stable_partition(
        connections_, [](const auto& each) { return each->rank >= 0; });
    connected_ = static_cast<int>(strangers.begin() - connections_.begin());
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
  const std::size_t known = connections_.size();
  for (int i = 0; i < most_accepted; ++i) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) break;
      // File descriptors or memory have run out. A connection that was just accepted may hold a
      // hello, so read it first.
      Connection* oldest = evictable();
      if (oldest == nullptr) accept_again_ = begin + accept_pause;  // the listener stays readable
      if (oldest == nullptr || oldest->since >= begin) break;
      drop(*oldest);
      continue;
    }
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_.push_back(std::make_unique<Connection>(socket));
  }
  identify(std::span{connections_}.subspan(known));
  auto strangers = std::ranges::count_if(
      connections_, &Connection::is_stranger, [](const auto& each) -> auto& { return *each; });
  for (; static_cast<std::size_t>(strangers) > admission_.most_strangers; --strangers)
    drop(*evictable());
  most_waiting_ = std::max<int>(most_waiting_, static_cast<int>(strangers));
}

/// Identifies the peers of new connections before any of their bytes are read.
void LiveServer::identify(std::span<const std::unique_ptr<Connection>> fresh) {
  if (fresh.empty()) return;
  if (!admission_.token.empty()) {
    for (const auto& each : fresh) each->peer = address_of_peer(each->socket);
    return;
  }
  std::vector<int> sockets;
  for (const auto& each : fresh) sockets.push_back(each->socket);
  const auto users = sockets_.users_of_peers(sockets);
  table_passes_ = sockets_.table_passes();
  const std::string advice = "; give the viewer and the run the same token";
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    fresh[i]->peer = users[i] ? std::to_string(*users[i]) : "unknown";
    if (!users[i])
      fresh[i]->objection = "the viewer can't tell which user this run belongs to" + advice;
    else if (*users[i] != admission_.user)
      fresh[i]->objection = "the viewer belongs to another user" + advice;
  }
}

/// Returns the oldest stranger of the peer with the most strangers; null if there are no strangers.
LiveServer::Connection* LiveServer::evictable() const {
  std::map<std::string, std::vector<Connection*>> by_peer;
  for (const auto& each : connections_)
    if (each->is_stranger()) by_peer[each->peer].push_back(each.get());
  const auto most =
      std::ranges::max_element(by_peer, {}, [](const auto& peer) { return peer.second.size(); });
  return most == by_peer.end() ? nullptr : most->second.front();
}

void LiveServer::drop_late_strangers() {
  const auto late = Clock::now() - admission_.hello_within;
  for (const auto& each : connections_) {
    if (each->is_stranger() && each->since < late) drop(*each);
  }
}

/// Closes a connection that has sent no hello.
void LiveServer::drop(Connection& connection) {
  ++refused_;
  connection.close();
  wake_();
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
    if (!connection.objection.empty()) return refuse(connection, connection.objection);
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
  const Hello hello = parse_hello(connection.text);
  connection.text = {};
  ++hellos_;
  std::string why;
  if (hello.rank < 0) {
    why = "the first line is not a rank's hello";
  } else if (!admission_.token.empty() && !same_secret(hello.token, admission_.token)) {
    why = "wrong token";
  } else if (std::ranges::count(past_runs_, hello.run) > 0) {
    why = "the viewer shows a later run";
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
