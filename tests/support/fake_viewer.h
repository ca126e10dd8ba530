#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::testing {

/// The viewer's end of the connection (core/trace/README.md), for one rank. It asks for the
/// bytes that follow those it already has, and can be as slow and unreliable as a test requires.
class FakeViewer {
 public:
  struct Habits {
    int drops = 0;                             ///< number of connections that it closes
    std::size_t drop_after = 10'000;           ///< bytes after which it closes them, at least
    std::size_t piece = 64 * 1024;             ///< most bytes that it reads at once
    std::chrono::milliseconds pause{0};        ///< after each read
    bool held = false;                         ///< reads only the hello until go()
    bool answers = true;                       ///< whether it answers the hello
    std::vector<std::string> wrong_answers{};  ///< sent to the first clients before hanging up
  };

  /// Reserves a port on the loopback interface; connections fail until listen().
  FakeViewer() {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port on the loopback");
    port_ = ntohs(address.sin_port);
  }
  ~FakeViewer() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    ::close(socket_);
  }
  FakeViewer(const FakeViewer&) = delete;
  FakeViewer& operator=(const FakeViewer&) = delete;

  void listen(const Habits& habits) {
    habits_ = habits;
    if (::listen(socket_, 8) != 0) throw std::runtime_error("can't listen");
    thread_ = std::thread{[this] { serve(); }};
  }

  /// Releases a viewer that is held.
  void go() { going_ = true; }
  /// Makes the viewer read as fast as it can from now on.
  void hurry() { hurried_ = true; }

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  /// The first line of each connection.
  std::vector<std::string> hellos() const {
    std::lock_guard lock{mutex_};
    return hellos_;
  }
  std::string received() const {
    std::lock_guard lock{mutex_};
    return received_;
  }
  /// Returns whether the viewer has received exactly these bytes within `seconds`.
  bool gets(const std::string& bytes, double seconds = 60) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (received().size() < bytes.size() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    return received() == bytes;
  }

  /// The number of bytes of wrong answers that its clients' hosts have accepted.
  std::size_t wrong_bytes_sent() const { return wrong_bytes_sent_; }

 private:
  void answer_wrongly(int connection, std::string_view answer) {
    const timeval patience{0, 100'000};
    ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    while (!stop_ && !answer.empty()) {
      const ssize_t count = ::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return;
      wrong_bytes_sent_ += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
      answer.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    char c = 0;  // waits until the client has read the answer and hung up
    while (readable(connection) && ::recv(connection, &c, 1, 0) == 1) {
    }
  }

  bool readable(int descriptor) const {
    while (!stop_) {
      pollfd polled{descriptor, POLLIN, 0};
      if (::poll(&polled, 1, 10) > 0) return true;
    }
    return false;
  }

  void serve() {
    while (readable(socket_)) {
      const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      attend(connection);
      ::close(connection);
    }
  }

  void attend(int connection) {
    std::string hello;
    for (char c = 0; c != '\n'; hello += c)
      if (!readable(connection) || ::recv(connection, &c, 1, 0) != 1) return;
    std::size_t have = 0;
    {
      std::lock_guard lock{mutex_};
      hellos_.push_back(hello);
      have = received_.size();
    }
    if (const auto count = hellos().size(); count <= habits_.wrong_answers.size())
      return answer_wrongly(connection, habits_.wrong_answers[count - 1]);
    if (!habits_.answers) {
      while (!stop_) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return;
    }
    const std::string answer = "resume " + std::to_string(have) + "\n";
    if (::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
    while (habits_.held && !going_ && !stop_)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    std::vector<char> buffer(habits_.piece);
    for (std::size_t read = 0; readable(connection);) {
      const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (count <= 0) return;
      {
        std::lock_guard lock{mutex_};
        received_.append(buffer.data(), static_cast<std::size_t>(count));
      }
      read += static_cast<std::size_t>(count);
      if (habits_.drops > 0 && read >= habits_.drop_after) {
        --habits_.drops;
        return;
      }
      if (!hurried_) std::this_thread::sleep_for(habits_.pause);
    }
  }

  int socket_ = -1;
  int port_ = 0;
  Habits habits_;
  std::atomic<std::size_t> wrong_bytes_sent_{0};
  std::atomic<bool> stop_{false}, hurried_{false}, going_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> hellos_;
  std::string received_;
  std::thread thread_;
};

}  // namespace lockstep::testing
