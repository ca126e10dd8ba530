#include "core/comm/nccl/nccl_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <deque>
#include <functional>
#include <list>

#include "core/base/error.h"
#include "core/comm/nccl/nccl_collectives.h"
#include "core/comm/nccl/nccl_watchdog.h"
#include "core/comm/transport/control.h"
#include "core/comm/transport/gpu_communicator.h"

namespace lockstep {

namespace {

/// Identifies a connection. The channel identifies a group's connection; a one-way connection also
/// has a source and a destination.
struct ConnectionKey {
  int channel = 0;
  int source = -1;
  int destination = -1;
  auto operator<=>(const ConnectionKey&) const = default;
};

/// A communicator, and the queue that its operations run on.
struct Connection {
  GpuQueue queue;  ///< declared first: the communicator uses it
  std::unique_ptr<GpuCommunicator> communicator;
  std::vector<int> ranks;  ///< by member: its rank in the whole run
  bool one_way;            ///< between two pipeline ranks; not batched
  /// Counted in the order of creation, in which all ranks that share two connections agree.
  int number;

  Connection(std::unique_ptr<GpuCommunicator> communicator_, std::vector<int> ranks_, Gpu& gpu,
             bool one_way_, int number_)
      : queue(gpu),
        communicator(std::move(communicator_)),
        ranks(std::move(ranks_)),
        one_way(one_way_),
        number(number_) {}
  struct Earlier {
    bool operator()(const Connection* one, const Connection* other) const {
      return one->number < other->number;
    }
  };
  int member(int rank) const {
    return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  }
};

/// State shared by the agents of one rank.
struct Shared {
  Shared(std::unique_ptr<Transport> control_, Stream& compute_, double patience_seconds)
      : control(std::move(control_)),
        compute(compute_),
        gpu(*compute.gpu()),
        patience(patience_seconds),
        watchdog(std::make_unique<NcclWatchdog>(*control, gpu, patience)),
        dummies(gpu.allocate(2 * word, compute.queue()),
                [this](void* data) { gpu.release(data, compute.queue()); }) {
    compute.synchronise();
  }
  ~Shared() { watchdog.reset(); }  // before the communicators that it watches
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Creates a communicator of `ranks` from an id that the first of them sends to the others. If
  /// one of them never arrives, this exchange ends the run and names that rank, because the first
  /// rank waits for each of the others, and they wait for it. NCCL cannot tell which rank is
  /// missing.
  std::unique_ptr<GpuCommunicator> join(const std::vector<int>& ranks) const {
    const auto place = std::ranges::find(ranks, control->rank()) - ranks.begin();
    std::vector<std::byte> id(128);
    if (place == 0) {
      id = gpu.make_communicator_id();
      for (std::size_t i = 1; i < ranks.size(); ++i)
        control->send(control_route(*control, ranks[i]), id, 0)->wait();
    } else {
      control->receive(control_route(*control, ranks.front()), id)->wait();
    }
    return gpu.join(id, static_cast<int>(ranks.size()), static_cast<int>(place), check_of(ranks));
  }

  /// Detects a stall: ends the wait for a call of NCCL if the run has failed, or if the call has
  /// taken too long. (The watchdog's own time limit is for operations that NCCL has enqueued.)
  WaitCheck check_of(const std::vector<int>& ranks) const {
    return [this, ranks](double waited) {
      control->check();
      if (watchdog != nullptr) watchdog->check();
      if (waited > patience)
        throw RunError(
            fmt::format("rank {} has waited {:g} s for NCCL to connect ranks {}: one of them has "
                        "stalled, or can't be reached",
                        control->rank(), patience, fmt::join(ranks, ", ")));
    };
  }

  /// `first` issues the connection's first operation, at which NCCL connects the ranks.
  void add_connection(ConnectionKey key, std::vector<int> ranks, bool one_way,
                      const std::function<void(Connection&)>& first) {
    const std::int64_t before = gpu.memory_in_use();
    auto communicator = join(ranks);
    watchdog->add(*communicator);
    auto made = std::make_unique<Connection>(std::move(communicator), std::move(ranks), gpu,
                                             one_way, created.count++);
    Connection& connection = *made;
    {
      const std::lock_guard lock{mutex};
      connections.insert_or_assign(key, std::move(made));
    }
    MarkPtr begun = connection.queue.record();
    first(connection);
    watchdog->expect({std::move(begun), connection.queue.record()});
    created.bytes += std::max<std::int64_t>(0, gpu.memory_in_use() - before);
  }
  /// Moves the first released one-way connection to its new key and returns it; null if there is
  /// none.
  Connection* reuse(ConnectionKey key) {
    std::lock_guard lock{mutex};
    auto& released = idle[{key.source, key.destination}];
    if (released.empty()) return nullptr;
    auto connection = std::move(released.front());
    released.pop_front();
    return connections.insert_or_assign(key, std::move(connection)).first->second.get();
  }
  void release(int channel) {
    std::lock_guard lock{mutex};
    for (auto each = connections.begin(); each != connections.end();) {
      const ConnectionKey key = each->first;
      if (key.channel != channel || !each->second->one_way) {
        ++each;
        continue;
      }
      idle[{key.source, key.destination}].push_back(std::move(each->second));
      each = connections.erase(each);
    }
  }
  Connection& connection(ConnectionKey key) {
    std::lock_guard lock{mutex};
    auto found = connections.find(key);
    if (found == connections.end()) found = connections.find({key.channel});
    if (found == connections.end())
      throw std::invalid_argument(fmt::format(
          "ranks {} and {} have no NCCL connection on this channel; call Transport::connect first",
          key.source, key.destination));
    return *found->second;
  }

  /// Dummy elements, which are sent or received in place of an empty message, so that it still
  /// synchronizes its two sides.
  View dummy_out() const { return {dummies.get(), {1}, DType::i32}; }
  View dummy_in() const { return {static_cast<std::byte*>(dummies.get()) + word, {1}, DType::i32}; }

  static constexpr std::size_t word = 256;
  std::unique_ptr<Transport> control;
  Stream& compute;
  Gpu& gpu;
  const double patience;
  std::unique_ptr<NcclWatchdog> watchdog;
  std::unique_ptr<void, std::function<void(void*)>> dummies;
  std::mutex mutex;
  Transport::Communicators created;  ///< only the rank's own thread connects
  std::map<ConnectionKey, std::unique_ptr<Connection>> connections;
  /// The released one-way connections, by source and destination, in order of release. Both ends
  /// hold the same connections in the same order.
  std::map<std::pair<int, int>, std::deque<std::unique_ptr<Connection>>> idle;
};

/// The messages of one connection that are submitted together.
struct MessageBatch {
  struct Message {
    View data;
    int peer;  ///< member of the communicator
    Direction direction;
    MarkPtr ready;
  };
  std::list<Message> messages;
  Marks marks;
  bool submitted = false;
};

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(std::shared_ptr<Shared> shared)
      : NcclTransport(std::move(shared), std::make_shared<Account>(), nullptr) {}
  NcclTransport(std::shared_ptr<Shared> shared, std::shared_ptr<Account> account,
                std::unique_ptr<Transport> control_worker)
      : Transport(std::move(account)),
        shared_(std::move(shared)),
        control_worker_(std::move(control_worker)) {
    use(shared_->gpu);
  }
  ~NcclTransport() override {
    if (control_worker_ == nullptr) shared_->compute.before_next_launch(nullptr);
  }

  int rank() const override { return shared_->control->rank(); }
  int size() const override { return shared_->control->size(); }
  const char* name() const override { return "nccl"; }

  std::unique_ptr<Transport> worker(const std::string& name) override {
    return std::make_unique<NcclTransport>(shared_, account(), shared_->control->worker(name));
  }
  std::unique_ptr<NativeCollectives> native(const std::vector<int>&, int channel) override {
    Connection& connection = shared_->connection({channel});
    return std::make_unique<NcclCollectives>(*connection.communicator, connection.queue);
  }
  // Sums a dummy element, so that NCCL connects the ranks now and not in the middle of a step.
  void connect(const std::vector<int>& ranks, int channel, int count) override {
    for (int i = 0; i < count; ++i)
      shared_->add_connection({channel + i}, ranks, false, [this](Connection& all) {
        all.communicator->all_reduce(all.queue.handle(), shared_->dummy_in());
      });
  }
  // Connects the lower rank to the higher rank first, then connects the reverse direction, and
  // sends a dummy message each way. NCCL connects two ranks at their first message, and its call is
  // not done until the other rank makes its call. In the middle of a schedule, this would cause a
  // deadlock: rank 0 would wait for a gradient from rank 1, while rank 1 waited for an activation
  // from rank 0.
  void connect(int peer, int channel, Directions directions) override {
    const int self = rank();
    const std::vector<int> ends{std::min(self, peer), std::max(self, peer)};
    for (const auto& [from, to] : {std::pair{ends[0], ends[1]}, {ends[1], ends[0]}}) {
      if (!(from == self ? directions.sends : directions.receives)) continue;
      if (shared_->reuse({channel, from, to}) != nullptr) continue;
      shared_->add_connection(
          {channel, from, to}, ends, true, [&, sends = from == self](Connection& pair) {
            if (sends)
              pair.communicator->send(pair.queue.handle(), shared_->dummy_out(), pair.member(peer));
            else
              pair.communicator->receive(pair.queue.handle(), shared_->dummy_in(),
                                         pair.member(peer));
          });
    }
  }

  void disconnect(int channel) override { shared_->release(channel); }

  std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into, Combine,
                                   const Event& free) override {
    if (is_control(route.channel)) return shared_->control->receive(route, into);
    return post(route, into.data(), into.size(), Direction::receive, free);
  }

  Communicators communicators() const override { return shared_->created; }
  void expect(Marks marks) override { shared_->watchdog->expect(std::move(marks)); }
  void check() const override {
    shared_->control->check();
    shared_->watchdog->check();
  }
  void computes_on(const Stream& compute) override { shared_->control->computes_on(compute); }
  void job_queued() override { control_agent().job_queued(); }
  void job_done() override { control_agent().job_done(); }
  void job_dropped() override { control_agent().job_dropped(); }
  void waits_for_jobs(Transport& worker, std::int64_t jobs, const Route& why) override {
    control_agent().waits_for_jobs(static_cast<NcclTransport&>(worker).control_agent(), jobs, why);
  }
  void give_up(bool now) override { control_agent().give_up(now); }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     const Event& ready) override {
    if (is_control(route.channel)) return shared_->control->send(route, data, ready);
    return post(route, const_cast<std::byte*>(data.data()), data.size(), Direction::send, ready);
  }

 private:
  class Message;

  Transport& control_agent() { return control_worker_ ? *control_worker_ : *shared_->control; }
  std::unique_ptr<Pending> post(const Route& route, std::byte* data, std::size_t size,
                                Direction direction, const Event& ready);
  void submit(Connection& connection, MessageBatch& batch);
  void submit_all();

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Transport> control_worker_;  ///< null if the agent is the rank's own thread
  /// The latest batch of each connection. All ranks submit those of several connections in one
  /// order: NCCL's kernels wait for one another on the GPU, and could wait in a circle.
  std::map<Connection*, std::shared_ptr<MessageBatch>, Connection::Earlier> batches_;
};

class NcclTransport::Message final : public Pending {
 public:
  Message(NcclTransport& agent, Connection& connection, std::shared_ptr<MessageBatch> batch,
          std::list<MessageBatch::Message>::iterator which)
      : agent_(agent), connection_(connection), batch_(std::move(batch)), which_(which) {}
  ~Message() override {
    if (!batch_->submitted) batch_->messages.erase(which_);
  }

  void wait() override {
    agent_.check();
    agent_.submit(connection_, *batch_);
    done_nanoseconds_ = steady_nanoseconds();
  }
  Picoseconds departure() const override { return 0; }
  std::int64_t done_nanoseconds() const override { return done_nanoseconds_; }
  Marks marks() const override { return batch_->marks; }

 private:
  NcclTransport& agent_;
  Connection& connection_;
  std::shared_ptr<MessageBatch> batch_;
  std::list<MessageBatch::Message>::iterator which_;
  std::int64_t done_nanoseconds_ = 0;
};

std::unique_ptr<Pending> NcclTransport::post(const Route& route, std::byte* data, std::size_t size,
                                             Direction direction, const Event& ready) {
  const int self = rank();
  const bool sends = direction == Direction::send;
  Connection& connection =
      shared_->connection(sends ? ConnectionKey{route.channel, self, route.peer}
                                : ConnectionKey{route.channel, route.peer, self});
  std::shared_ptr<MessageBatch>& batch = batches_[&connection];
  if (batch == nullptr || batch->submitted) batch = std::make_shared<MessageBatch>();
  // NCCL takes a number of elements; any element type of the right size works.
  const bool words = size % 4 == 0;
  const View view = size == 0 ? sends ? shared_->dummy_out() : shared_->dummy_in()
                    : words ? View{data, {static_cast<std::int64_t>(size / 4)}, DType::i32}
                              : View{data, {static_cast<std::int64_t>(size / 2)}, DType::bf16};
  const auto which = batch->messages.insert(
      batch->messages.end(), {view, connection.member(route.peer), direction, ready.mark});
  auto message = std::make_unique<Message>(*this, connection, batch, which);
  if (connection.one_way)
    submit(connection, *batch);
  else if (control_worker_ == nullptr)
    shared_->compute.before_next_launch([this] { submit_all(); });
  return message;
}

void NcclTransport::submit(Connection& connection, MessageBatch& batch) {
  if (batch.submitted) return;
  for (const MessageBatch::Message& each : batch.messages) connection.queue.wait({0, each.ready});
  batch.marks.begun = connection.queue.record();
  GpuGroup group{*connection.communicator};
  for (const MessageBatch::Message& each : batch.messages)
    if (each.direction == Direction::send)
      connection.communicator->send(connection.queue.handle(), each.data, each.peer);
    else
      connection.communicator->receive(connection.queue.handle(), each.data, each.peer);
  group.submit();
  batch.marks.done = connection.queue.record();
  batch.submitted = true;
  shared_->watchdog->expect(batch.marks);
}

void NcclTransport::submit_all() {
  for (auto& [connection, batch] : batches_) submit(*connection, *batch);
}

}  // namespace

std::unique_ptr<Transport> nccl_transport(std::unique_ptr<Transport> control, Stream& compute,
                                          double patience_seconds) {
  return std::make_unique<NcclTransport>(
      std::make_shared<Shared>(std::move(control), compute, patience_seconds));
}

}  // namespace lockstep
