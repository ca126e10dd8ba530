#include "core/comm/threads/thread_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/comm/threads/fabric_time.h"
#include "core/comm/threads/thread_message.h"
#include "core/time/clock.h"

namespace lockstep {

namespace {

/// Returns the time-out divided by the smallest integer, at least 2, that makes the result at most
/// half a second.
double time_between_looks(double patience_seconds) {
  constexpr double longest = 0.5;
  if (!std::isfinite(patience_seconds)) return longest;
  return patience_seconds / std::max(2.0, std::ceil(patience_seconds / longest));
}

}  // namespace

ThreadFabric::ThreadFabric(int ranks, double patience_seconds, Notice notice)
    : patience_seconds_(patience_seconds),
      look_seconds_(time_between_looks(patience_seconds)),
      notice_(std::move(notice)),
      graph_(ranks),
      computing_(static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank) sleepers_.push_back(std::make_unique<Sleeper>());
}
ThreadFabric::~ThreadFabric() = default;

ThreadFabric::Time& ThreadFabric::time(const Cluster& cluster) {
  std::lock_guard lock{mutex_};
  if (!time_) time_ = std::make_unique<Time>(*this, cluster);
  return *time_;
}

std::shared_ptr<ThreadFabric::Message> ThreadFabric::post(std::shared_ptr<Message> message) {
  std::unique_lock lock{mutex_};
  if (!failure_.empty()) throw_failure();
  Unmatched& unmatched = unmatched_[message->key()];
  auto& others = message->is_send() ? unmatched.receives : unmatched.sends;
  if (others.empty()) {
    if (message->is_send() && time_ && !Transport::is_control(message->route.channel))
      message->keep_data();
    unmatched.of(message->direction).push_back(message);
    return message;
  }

  std::shared_ptr<Message> other = others.front();
  others.pop_front();
  Message& from = message->is_send() ? *message : *other;
  Message& to = message->is_send() ? *other : *message;
  const auto sent = static_cast<std::int64_t>(from.size);
  const auto expected = static_cast<std::int64_t>(to.size);
  if (!fit_together(from.route, sent, to.route, expected)) {
    const std::string what = mismatch({from.source, from.route, sent, place(from.route.where)},
                                      {to.destination, to.route, expected, place(to.route.where)});
    from.state = to.state = Message::State::failed;
    fail_locked(what);
    throw RunError(what);
  }
  from.state = to.state = Message::State::copying;
  to.departure = from.departure;
  lock.unlock();
  try {
    if (message->queue != nullptr)
      move_on_gpu(*message->queue, from, to);
    else
      move(from, to);
  } catch (const std::exception& error) {
    lock.lock();
    from.state = to.state = Message::State::failed;
    fail_locked(fmt::format("a message of rank {} to rank {}: {}", from.source, from.destination,
                            error.what()));
    throw;
  }
  lock.lock();
  complete(from);
  complete(to);
  return message;
}

void ThreadFabric::move(const Message& from, const Message& to) {
  if (from.size == 0 || from.data == nullptr || to.data == nullptr) return;
  if (to.combine != nullptr)
    to.combine(cpu_kernels(), {}, to.data, from.data, from.size);
  else
    std::memcpy(to.data, from.data, from.size);
}

// An empty message still synchronizes its two sides; a barrier consists of empty messages.
void ThreadFabric::move_on_gpu(GpuQueue& queue, Message& from, Message& to) {
  queue.wait({0, from.ready});
  queue.wait({0, to.ready});
  Marks marks{.begun = queue.record(), .done = nullptr};
  if (from.size > 0 && to.combine != nullptr)
    to.combine(queue.gpu().kernels(), queue.handle(), to.data, from.data, from.size);
  else if (from.size > 0)
    queue.gpu().copy(queue.handle(), to.data, from.data, from.size);
  marks.done = queue.record();
  from.marks = to.marks = std::move(marks);
  from.marks_queue = to.marks_queue = &queue;
}

void ThreadFabric::complete(Message& message) {
  message.state = Message::State::done;
  message.done_nanoseconds = steady_nanoseconds();
  Sleeper& owner = sleeper(message.agent);
  if (owner.waits_for == &message) {
    // The agent counts as running from now on, even if its thread has not been scheduled yet.
    owner.waits_for = nullptr;
    graph_.runs(message.agent);
  }
  owner.wake.notify_all();
}

void ThreadFabric::wait(Message& message) {
  std::unique_lock lock{mutex_};
  if (message.state == Message::State::done || message.kept) return;
  if (!failure_.empty()) throw_failure();
  Sleeper& self = sleeper(message.agent);
  self.waits_for = &message;
  graph_.waits(message.agent,
               WaitGraph::ForMessage{message.is_send(), static_cast<std::int64_t>(message.size),
                                     message.route});
  stopped(message.agent);

  sleep(lock, message.agent, [&] {
    return message.state == Message::State::done || message.state == Message::State::failed ||
           self.gives_up || !failure_.empty();
  });
  self.waits_for = nullptr;
  graph_.runs(message.agent);
  if (message.state == Message::State::done) return;
  if (!failure_.empty()) throw_failure();
  throw RunError("the wait was cancelled");
}

// Detects a stall. Only time slept here counts towards the time-out, so a program that is stopped
// in a debugger does not time out. The time-out restarts whenever a check finds a computing rank.
void ThreadFabric::sleep(std::unique_lock<std::mutex>& lock, int agent,
                         const std::function<bool()>& over) {
  const std::chrono::duration<double> slice{look_seconds_};
  double waited = 0;
  double patience = patience_seconds_;
  while (!sleeper(agent).wake.wait_for(lock, slice, over)) {
    waited += look_seconds_;
    patience -= look_seconds_;
    if (is_held_up_by_compute(lock, agent, waited)) patience = patience_seconds_;
    if (patience < look_seconds_ / 2 && !over())
      fail_locked(graph_.stalled(agent, patience_seconds_));
  }
  stopped_waiting(agent);
}

bool ThreadFabric::is_held_up_by_compute(std::unique_lock<std::mutex>& lock, int agent,
                                         double waited) {
  BusyRank* busy = nullptr;
  for (const int other : graph_.running_for(agent)) {
    if (other >= graph_.ranks()) continue;  // a worker
    auto& rank = computing_[static_cast<std::size_t>(other)];
    if (rank && rank->busy_within(look_seconds_)) busy = &*rank;
  }
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> patience{patience_seconds_};
  if (busy != nullptr && !busy->sleeps_for_pace() && notice_ && waited >= patience_seconds_ &&
      now - noticed_ >= patience) {
    noticed_ = now;
    const std::string line = busy->notice();
    lock.unlock();
    notice_(line);
    lock.lock();
  }
  return busy != nullptr;
}

void ThreadFabric::stopped_waiting(int agent) {
  if (agent >= graph_.ranks()) return;
  if (auto& rank = computing_[static_cast<std::size_t>(agent)]) rank->stopped_waiting();
}

void ThreadFabric::withdraw(const std::shared_ptr<Message>& message) {
  std::unique_lock lock{mutex_};
  sleeper(message->agent).wake.wait(lock, [&] {
    return message->state != Message::State::copying;
  });
  if (message->state != Message::State::posted || message->kept) return;
  std::erase(unmatched_[message->key()].of(message->direction), message);
}

void ThreadFabric::finish(int rank) {
  std::lock_guard lock{mutex_};
  graph_.finished(rank);
  rendezvous_.finished(rank);
  stopped();
}

void ThreadFabric::wait_for_time(std::unique_lock<std::mutex>& lock, int agent, const Route& route,
                                 const std::function<bool()>& known) {
  if (!failure_.empty()) throw_failure();
  graph_.waits(agent, WaitGraph::ForTime{route});
  stopped(agent);
  sleep(lock, agent, [&] { return known() || sleeper(agent).gives_up || !failure_.empty(); });
  graph_.runs(agent);
  if (known()) return;
  if (!failure_.empty()) throw_failure();
  throw RunError("the wait was cancelled");
}

void ThreadFabric::released(int agent) {
  graph_.runs(agent);
  sleeper(agent).wake.notify_all();
}

void ThreadFabric::stopped(int agent) {
  if (time_) {
    time_->move_on();
    if (graph_.any_runs()) return;
    return check(graph_.deadlock());
  }
  check(agent < 0 ? graph_.deadlock() : graph_.deadlock(agent));
}

void ThreadFabric::fail(const std::string& what) {
  std::lock_guard lock{mutex_};
  fail_locked(what);
}

void ThreadFabric::check(const std::optional<Deadlock>& deadlock) {
  if (!deadlock) return;
  if (failure_.empty()) deadlock_ = deadlock;
  fail_locked(deadlock->text);
}

void ThreadFabric::fail_locked(const std::string& what, bool impossible) {
  if (failure_.empty()) {
    failure_ = what;
    impossible_ = impossible;
  }
  for (auto& sleeper : sleepers_) sleeper->wake.notify_all();
}

void ThreadFabric::throw_failure() const {
  if (impossible_) throw UsageError(failure_);
  throw RunError(failure_);
}

std::string ThreadFabric::failure() const {
  std::lock_guard lock{mutex_};
  return failure_;
}

std::optional<Deadlock> ThreadFabric::deadlock() const {
  std::lock_guard lock{mutex_};
  return deadlock_;
}

}  // namespace lockstep
