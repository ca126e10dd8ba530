#include "core/comm/threads/threads_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/time/clock.h"

namespace lockstep {

struct ThreadFabric::Message {
  enum class State { posted, copying, done, failed };
  State state = State::posted;
  bool is_send = false;
  int agent = 0;  ///< the agent that posted it
  int source = 0;
  int destination = 0;
  Route route;
  std::byte* data = nullptr;  ///< read-only if is_send
  std::size_t size = 0;
  Combine combine = nullptr;
  Picoseconds departure = 0;
  std::int64_t done_nanoseconds = 0;
  GpuLane* lane = nullptr;  ///< of the agent that posted it; null for host memory
  MarkPtr ready;            ///< when the buffer may be used, on a GPU
  Marks marks;
  const GpuLane* moved_on = nullptr;  ///< the lane that recorded the marks
};

class ThreadPending final : public Pending {
 public:
  ThreadPending(ThreadFabric& fabric, std::shared_ptr<ThreadFabric::Message> message)
      : fabric_(fabric), message_(std::move(message)) {}
  ~ThreadPending() override { fabric_.withdraw(message_); }
  void wait() override {
    fabric_.wait(*message_);
    // The other side's copy was ordered on its own lane. This orders it on this lane too (marks of
    // two GPUs share no time base).
    GpuLane* lane = message_->lane;
    if (lane == nullptr || message_->moved_on == lane) return;
    const MarkPtr moved = message_->marks.done;
    message_->marks.begun = lane->record();
    lane->wait({0, moved});
    message_->marks.done = lane->record();
    message_->moved_on = lane;
  }
  Picoseconds departure() const override { return message_->departure; }
  std::int64_t done_nanoseconds() const override { return message_->done_nanoseconds; }
  Marks marks() const override { return message_->marks; }

 private:
  ThreadFabric& fabric_;
  std::shared_ptr<ThreadFabric::Message> message_;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadFabric& fabric, int agent, int rank, bool one_gpu,
                  std::shared_ptr<Account> account = std::make_shared<Account>())
      : Transport(std::move(account)),
        fabric_(fabric),
        agent_(agent),
        rank_(rank),
        one_gpu_(one_gpu) {}
  ~ThreadTransport() override {
    std::lock_guard lock{fabric_.mutex_};
    if (agent_ == rank_) fabric_.computing_[static_cast<std::size_t>(rank_)].reset();
  }
  int rank() const override { return rank_; }
  int size() const override { return fabric_.graph_.ranks(); }
  const char* name() const override { return "threads"; }
  bool combines() const override { return lane() == nullptr || one_gpu_; }

  std::unique_ptr<Transport> worker(const std::string& name) override {
    std::lock_guard lock{fabric_.mutex_};
    fabric_.sleepers_.push_back(std::make_unique<ThreadFabric::Sleeper>());
    auto worker = std::make_unique<ThreadTransport>(fabric_, fabric_.graph_.add_worker(rank_, name),
                                                    rank_, one_gpu_, account());
    if (lane() != nullptr) worker->use(lane()->gpu());
    return worker;
  }
  std::unique_ptr<MetaCollectives> meta_collectives(const std::vector<int>& ranks, int channel,
                                                    const Cluster& cluster) override {
    return fabric_.rendezvous_.join(rank_, ranks, channel, cluster);
  }
  void computes_on(const Stream& compute) override {
    std::lock_guard lock{fabric_.mutex_};
    fabric_.computing_[static_cast<std::size_t>(rank_)].emplace(rank_, compute);
  }
  void check() const override {
    if (const std::string failure = fabric_.failure(); !failure.empty()) throw RunError(failure);
  }

  std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into, Combine combine,
                                   const Event& free) override {
    return post(route, false, into.data(), into.size(), combine, free);
  }

  void job_queued() override {
    std::lock_guard lock{fabric_.mutex_};
    fabric_.graph_.job_queued(agent_);
  }
  void job_done() override {
    std::lock_guard lock{fabric_.mutex_};
    const bool rank_waited = fabric_.graph_.waits(rank_);
    const bool passive = fabric_.graph_.job_done(agent_);
    if (rank_waited && !fabric_.graph_.waits(rank_)) fabric_.stopped_waiting(rank_);
    if (passive) fabric_.check(fabric_.graph_.deadlock());
  }
  void job_dropped() override {
    std::lock_guard lock{fabric_.mutex_};
    if (fabric_.graph_.job_dropped(agent_)) fabric_.check(fabric_.graph_.deadlock());
  }
  void waits_for_jobs(Transport& worker, std::int64_t jobs, const Route& why) override {
    const int other = static_cast<ThreadTransport&>(worker).agent_;
    std::lock_guard lock{fabric_.mutex_};
    fabric_.graph_.waits(agent_, WaitGraph::ForJobs{other, jobs, why});
    fabric_.check(fabric_.graph_.deadlock(agent_));
  }
  void give_up(bool now) override {
    std::lock_guard lock{fabric_.mutex_};
    fabric_.sleeper(agent_).gives_up = now;
    fabric_.sleeper(agent_).wake.notify_all();
  }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     const Event& ready) override {
    // The fabric only ever reads a send's bytes.
    return post(route, true, const_cast<std::byte*>(data.data()), data.size(), nullptr, ready);
  }

 private:
  std::unique_ptr<Pending> post(const Route& route, bool is_send, std::byte* data, std::size_t size,
                                Combine combine, const Event& ready) {
    auto message = std::make_shared<ThreadFabric::Message>();
    message->is_send = is_send;
    message->agent = agent_;
    message->source = is_send ? rank_ : route.peer;
    message->destination = is_send ? route.peer : rank_;
    message->route = route;
    message->data = data;
    message->size = size;
    message->combine = combine;
    message->departure = ready.time;
    if (route.channel != control_channel) {
      message->lane = lane();
      message->ready = ready.mark;
    }
    return std::make_unique<ThreadPending>(fabric_, fabric_.post(std::move(message)));
  }

  ThreadFabric& fabric_;
  int agent_;
  int rank_;
  bool one_gpu_;
};

namespace {

/// At most half a second, and an integral fraction of the time-out.
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

std::unique_ptr<Transport> ThreadFabric::endpoint(int rank, bool one_gpu) {
  // The first agents are the ranks' own threads.
  return std::make_unique<ThreadTransport>(*this, rank, rank, one_gpu);
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
    if (message->lane != nullptr)
      move_on_gpu(*message->lane, from, to);
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

// An empty message still synchronizes; barriers consist of them.
void ThreadFabric::move_on_gpu(GpuLane& lane, Message& from, Message& to) {
  lane.wait({0, from.ready});
  lane.wait({0, to.ready});
  Marks marks{.begun = lane.record(), .done = nullptr};
  if (from.size > 0 && to.combine != nullptr)
    to.combine(lane.gpu().kernels(), lane.queue(), to.data, from.data, from.size);
  else if (from.size > 0)
    lane.gpu().copy(lane.queue(), to.data, from.data, from.size);
  marks.done = lane.record();
  from.marks = to.marks = std::move(marks);
  from.moved_on = to.moved_on = &lane;
}

void ThreadFabric::complete(Message& message) {
  message.state = Message::State::done;
  message.done_nanoseconds = steady_nanoseconds();
  Sleeper& owner = sleeper(message.agent);
  if (owner.waits_for == &message) {
    // It is runnable from now on, even if its thread has not been scheduled yet.
    owner.waits_for = nullptr;
    graph_.runs(message.agent);
  }
  owner.wake.notify_all();
}

void ThreadFabric::wait(Message& message) {
  std::unique_lock lock{mutex_};
  if (message.state == Message::State::done) return;
  if (!failure_.empty()) throw RunError(failure_);
  Sleeper& self = sleeper(message.agent);
  self.waits_for = &message;
  graph_.waits(message.agent,
               WaitGraph::ForMessage{message.is_send, static_cast<std::int64_t>(message.size),
                                     message.route});
  check(graph_.deadlock(message.agent));

  sleep(lock, message.agent, [&] {
    return message.state == Message::State::done || message.state == Message::State::failed ||
           self.gives_up || !failure_.empty();
  });
  self.waits_for = nullptr;
  graph_.runs(message.agent);
  if (message.state == Message::State::done) return;
  throw RunError(failure_.empty() ? "given up" : failure_);
}

// The time-out counts only time slept here, so that a program stopped in a debugger does not time
// out. It restarts with each check that finds a computing rank.
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
  if (busy != nullptr && notice_ && waited >= patience_seconds_ && now - noticed_ >= patience) {
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
  if (message->state != Message::State::posted) return;
  Queue& queue = queues_[{message->source, message->destination, message->route.channel}];
  auto& mine = message->is_send ? queue.sends : queue.receives;
  std::erase(mine, message);
}

void ThreadFabric::finish(int rank) {
  std::lock_guard lock{mutex_};
  graph_.finished(rank);
  rendezvous_.finished(rank);
  check(graph_.deadlock());
}

void ThreadFabric::fail(const std::string& what) {
  std::lock_guard lock{mutex_};
  fail_locked(what);
}

void ThreadFabric::check(const std::optional<std::string>& deadlock) {
  if (deadlock) fail_locked(*deadlock);
}

void ThreadFabric::fail_locked(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  for (auto& sleeper : sleepers_) sleeper->wake.notify_all();
}

std::string ThreadFabric::failure() const {
  std::lock_guard lock{mutex_};
  return failure_;
}

}  // namespace lockstep
