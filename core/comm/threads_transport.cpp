#include "core/comm/threads_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/time/clock.h"

namespace lockstep {

namespace {

/// Where in the program a message was asked for.
std::string place(const Route& route) {
  return fmt::format("{}:{}", std::filesystem::path(route.where.file_name()).filename().string(),
                     route.where.line());
}

/// A send meets a receive; in a collective both ends call the same one.
bool same_operation(const std::string& sender, const std::string& receiver) {
  return sender == receiver || (sender == "send" && receiver == "recv");
}

}  // namespace

struct ThreadFabric::Message {
  enum class State { posted, copying, done, failed };
  State state = State::posted;
  bool is_send = false;
  int owner = 0;
  int source = 0;
  int destination = 0;
  Route route;
  std::byte* data = nullptr;  ///< read only where is_send
  std::size_t size = 0;
  Picoseconds departure = 0;
  std::int64_t done_nanoseconds = 0;
};

class ThreadPending final : public Pending {
 public:
  ThreadPending(ThreadFabric& fabric, std::shared_ptr<ThreadFabric::Message> message)
      : fabric_(fabric), message_(std::move(message)) {}
  ~ThreadPending() override { fabric_.withdraw(message_); }
  void wait() override { fabric_.wait(message_->owner, *message_); }
  Picoseconds departure() const override { return message_->departure; }
  std::int64_t done_nanoseconds() const override { return message_->done_nanoseconds; }

 private:
  ThreadFabric& fabric_;
  std::shared_ptr<ThreadFabric::Message> message_;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadFabric& fabric, int rank) : fabric_(fabric), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(fabric_.agents_.size()); }
  const char* name() const override { return "threads"; }

  std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into) override {
    return post(route, false, into.data(), into.size(), 0);
  }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     Picoseconds departure) override {
    // The fabric only ever reads a send's bytes.
    return post(route, true, const_cast<std::byte*>(data.data()), data.size(), departure);
  }

 private:
  std::unique_ptr<Pending> post(const Route& route, bool is_send, std::byte* data, std::size_t size,
                                Picoseconds departure) {
    auto message = std::make_shared<ThreadFabric::Message>();
    message->is_send = is_send;
    message->owner = rank_;
    message->source = is_send ? rank_ : route.peer;
    message->destination = is_send ? route.peer : rank_;
    message->route = route;
    message->data = data;
    message->size = size;
    message->departure = departure;
    return std::make_unique<ThreadPending>(fabric_, fabric_.post(std::move(message)));
  }

  ThreadFabric& fabric_;
  int rank_;
};

ThreadFabric::ThreadFabric(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) agents_.push_back(std::make_unique<Agent>());
}
ThreadFabric::~ThreadFabric() = default;

std::unique_ptr<Transport> ThreadFabric::endpoint(int rank) {
  return std::make_unique<ThreadTransport>(*this, rank);
}

std::shared_ptr<ThreadFabric::Message> ThreadFabric::post(std::shared_ptr<Message> message) {
  std::unique_lock lock{mutex_};
  if (!failure_.empty()) throw RunError(failure_);
  Queue& queue = queues_[{message->source, message->destination, message->route.channel}];
  auto& others = message->is_send ? queue.receives : queue.sends;
  if (others.empty()) {
    (message->is_send ? queue.sends : queue.receives).push_back(message);
    return message;
  }

  std::shared_ptr<Message> other = others.front();
  others.pop_front();
  Message& from = message->is_send ? *message : *other;
  Message& to = message->is_send ? *other : *message;
  if (from.size != to.size || !same_operation(from.route.operation, to.route.operation)) {
    const std::string what =
        fmt::format("rank {} sends {} bytes ({}, {}) where rank {} receives {} ({}, {})",
                    from.source, from.size, from.route.operation, place(from.route), to.destination,
                    to.size, to.route.operation, place(to.route));
    from.state = to.state = Message::State::failed;
    fail_locked(what);
    throw RunError(what);
  }
  from.state = to.state = Message::State::copying;
  to.departure = from.departure;
  lock.unlock();
  if (from.size > 0) std::memcpy(to.data, from.data, from.size);
  lock.lock();
  complete(from);
  complete(to);
  return message;
}

void ThreadFabric::complete(Message& message) {
  message.state = Message::State::done;
  message.done_nanoseconds = steady_nanoseconds();
  Agent& owner = *agents_[static_cast<std::size_t>(message.owner)];
  // Its owner is runnable from this moment on, whenever its thread gets a core.
  if (owner.waits_for == &message) owner.waits_for = nullptr;
  owner.wake.notify_all();
}

void ThreadFabric::wait(int rank, Message& message) {
  std::unique_lock lock{mutex_};
  if (message.state == Message::State::done) return;
  if (!failure_.empty()) throw RunError(failure_);
  Agent& agent = *agents_[static_cast<std::size_t>(rank)];
  agent.waits_for = &message;
  look_for_deadlock();
  agent.wake.wait(lock, [&] {
    return message.state == Message::State::done || message.state == Message::State::failed ||
           !failure_.empty();
  });
  agent.waits_for = nullptr;
  if (message.state != Message::State::done) throw RunError(failure_);
}

void ThreadFabric::withdraw(const std::shared_ptr<Message>& message) {
  std::unique_lock lock{mutex_};
  Agent& agent = *agents_[static_cast<std::size_t>(message->owner)];
  agent.wake.wait(lock, [&] { return message->state != Message::State::copying; });
  if (message->state != Message::State::posted) return;
  Queue& queue = queues_[{message->source, message->destination, message->route.channel}];
  auto& mine = message->is_send ? queue.sends : queue.receives;
  std::erase(mine, message);
}

void ThreadFabric::finish(int rank) {
  std::lock_guard lock{mutex_};
  agents_[static_cast<std::size_t>(rank)]->finished = true;
  look_for_deadlock();
}

void ThreadFabric::fail(const std::string& what) {
  std::lock_guard lock{mutex_};
  fail_locked(what);
}

void ThreadFabric::fail_locked(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  for (auto& agent : agents_) agent->wake.notify_all();
}

std::string ThreadFabric::failure() const {
  std::lock_guard lock{mutex_};
  return failure_;
}

std::string ThreadFabric::describe(int rank) const {
  const Message& message = *agents_[static_cast<std::size_t>(rank)]->waits_for;
  const int peer = message.is_send ? message.destination : message.source;
  return fmt::format("rank {} waits for rank {}: {} of {} bytes in {} ({})", rank, peer,
                     message.is_send ? "sending" : "receiving", message.size,
                     message.route.operation, place(message.route));
}

// Called by whoever has just stopped running. Nobody who is blocked can unblock another, so once
// all who are left are blocked they stay so; and a rank whose message is being copied is not marked
// as waiting any more as soon as the copy is done.
void ThreadFabric::look_for_deadlock() {
  if (!failure_.empty()) return;
  const auto blocked_on_nobody = [&](const Agent& agent) {
    if (agent.waits_for == nullptr) return false;
    const Message& message = *agent.waits_for;
    const int peer = message.is_send ? message.destination : message.source;
    return message.state == Message::State::posted &&
           agents_[static_cast<std::size_t>(peer)]->finished;
  };
  for (int rank = 0; rank < static_cast<int>(agents_.size()); ++rank)
    if (blocked_on_nobody(*agents_[static_cast<std::size_t>(rank)]))
      return fail_locked(describe(rank) + ", which has finished");

  std::vector<int> blocked;
  for (int rank = 0; rank < static_cast<int>(agents_.size()); ++rank) {
    const Agent& agent = *agents_[static_cast<std::size_t>(rank)];
    if (agent.finished) continue;
    if (agent.waits_for == nullptr || agent.waits_for->state != Message::State::posted) return;
    blocked.push_back(rank);
  }
  if (blocked.empty()) return;

  // Everybody waits for exactly one other, so following who waits for whom ends in a cycle.
  std::vector<int> path{blocked.front()};
  while (true) {
    const Message& message = *agents_[static_cast<std::size_t>(path.back())]->waits_for;
    const int next = message.is_send ? message.destination : message.source;
    const auto seen = std::find(path.begin(), path.end(), next);
    if (seen != path.end()) {
      path.erase(path.begin(), seen);
      break;
    }
    path.push_back(next);
  }
  std::string cycle = "deadlock";
  for (int rank : path) cycle += "\n  " + describe(rank);
  fail_locked(cycle);
}

}  // namespace lockstep
