#include "core/base/error.h"
#include "core/comm/threads/fabric_time.h"
#include "core/comm/threads/thread_message.h"

namespace lockstep {

class ThreadPending final : public Pending {
 public:
  ThreadPending(ThreadFabric& fabric, std::shared_ptr<ThreadFabric::Message> message)
      : fabric_(fabric), message_(std::move(message)) {}
  ~ThreadPending() override { fabric_.withdraw(message_); }
  void wait() override {
    fabric_.wait(*message_);
    // If the copy ran on the other side's queue, this queue waits for the copy and records its own
    // marks, because the times of two GPUs cannot be compared.
    GpuQueue* queue = message_->queue;
    if (queue == nullptr || message_->marks_queue == queue) return;
    const MarkPtr moved = message_->marks.done;
    message_->marks.begun = queue->record();
    queue->wait({0, moved});
    message_->marks.done = queue->record();
    message_->marks_queue = queue;
  }
  Picoseconds departure() const override { return message_->departure; }
  std::int64_t done_nanoseconds() const override { return message_->done_nanoseconds; }
  Marks marks() const override { return message_->marks; }

 private:
  ThreadFabric& fabric_;
  std::shared_ptr<ThreadFabric::Message> message_;
};

class ThreadTime final : public SharedTime {
 public:
  ThreadTime(ThreadFabric& fabric, ThreadFabric::Time& time, int agent, int rank, int channel)
      : fabric_(fabric), time_(time), agent_(agent) {
    std::lock_guard lock{fabric_.mutex_};
    stream_ = time_.network().open_stream(rank, channel);
  }

  std::shared_ptr<Message> send(const Route& route, const OutgoingMessage& out,
                                Known known) override {
    std::lock_guard lock{fabric_.mutex_};
    auto message = time_.add(agent_, route, std::move(known));
    time_.network().send(stream_, out, *message, 0);
    return message;
  }
  std::shared_ptr<Message> receive(const Route& route, Known known) override {
    std::lock_guard lock{fabric_.mutex_};
    auto message = time_.add(agent_, route, std::move(known));
    time_.network().receive(stream_, route.peer, *message, 0);
    return message;
  }

 private:
  ThreadFabric& fabric_;
  ThreadFabric::Time& time_;
  int agent_;
  int stream_ = 0;
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
  bool combines() const override { return gpu_queue() == nullptr || one_gpu_; }

  std::unique_ptr<Transport> worker(const std::string& name) override {
    std::lock_guard lock{fabric_.mutex_};
    fabric_.sleepers_.push_back(std::make_unique<ThreadFabric::Sleeper>());
    auto worker = std::make_unique<ThreadTransport>(fabric_, fabric_.graph_.add_worker(rank_, name),
                                                    rank_, one_gpu_, account());
    if (gpu_queue() != nullptr) worker->use(gpu_queue()->gpu());
    return worker;
  }
  std::unique_ptr<SharedTime> shared_time(const Cluster& cluster, int channel) override {
    return std::make_unique<ThreadTime>(fabric_, fabric_.time(cluster), agent_, rank_, channel);
  }
  void wait_until(Picoseconds time) override { fabric_.time_->wait_until(agent_, time); }
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
    return post(route, Direction::receive, into.data(), into.size(), combine, free);
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
    if (passive) fabric_.stopped();
  }
  void job_dropped() override {
    std::lock_guard lock{fabric_.mutex_};
    if (fabric_.graph_.job_dropped(agent_)) fabric_.stopped();
  }
  void waits_for_jobs(Transport& worker, std::int64_t jobs, const Route& why) override {
    const int other = static_cast<ThreadTransport&>(worker).agent_;
    std::lock_guard lock{fabric_.mutex_};
    fabric_.graph_.waits(agent_, WaitGraph::ForJobs{other, jobs, why});
    fabric_.stopped(agent_);
  }
  void give_up(bool now) override {
    std::lock_guard lock{fabric_.mutex_};
    fabric_.sleeper(agent_).gives_up = now;
    fabric_.sleeper(agent_).wake.notify_all();
  }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     const Event& ready) override {
    // For a send, the fabric only reads the data.
    return post(route, Direction::send, const_cast<std::byte*>(data.data()), data.size(), nullptr,
                ready);
  }

 private:
  std::unique_ptr<Pending> post(const Route& route, Direction direction, std::byte* data,
                                std::size_t size, Combine combine, const Event& ready) {
    auto message = std::make_shared<ThreadFabric::Message>();
    message->direction = direction;
    message->agent = agent_;
    message->source = direction == Direction::send ? rank_ : route.peer;
    message->destination = direction == Direction::send ? route.peer : rank_;
    message->route = route;
    message->data = data;
    message->size = size;
    message->combine = combine;
    message->departure = ready.time;
    if (!is_control(route.channel)) {
      message->queue = gpu_queue();
      message->ready = ready.mark;
    }
    return std::make_unique<ThreadPending>(fabric_, fabric_.post(std::move(message)));
  }

  ThreadFabric& fabric_;
  int agent_;
  int rank_;
  bool one_gpu_;
};

std::unique_ptr<Transport> ThreadFabric::endpoint(int rank, bool one_gpu) {
  // Agent `rank` is the rank's own thread.
  return std::make_unique<ThreadTransport>(*this, rank, rank, one_gpu);
}

}  // namespace lockstep
