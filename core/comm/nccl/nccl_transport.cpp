#include "core/comm/nccl/nccl_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <numeric>
#include <tuple>

#include "core/base/error.h"
#include "core/comm/nccl/nccl_collectives.h"
#include "core/comm/nccl/nccl_watchdog.h"
#include "core/comm/transport/control.h"
#include "core/comm/transport/gpu_communicator.h"

namespace lockstep {

namespace {

/// Ranks that communicate: their communicator, and the queue that its operations run on.
struct Line {
  GpuLane lane;  ///< outlives the communicator, which uses it
  std::unique_ptr<GpuCommunicator> communicator;
  std::vector<int> ranks;  ///< in the whole run, by rank in the communicator
  bool one_way;            ///< a pipeline's: its messages are not batched

  Line(std::unique_ptr<GpuCommunicator> communicator_, std::vector<int> ranks_, Gpu& gpu,
       bool one_way_)
      : lane(gpu),
        communicator(std::move(communicator_)),
        ranks(std::move(ranks_)),
        one_way(one_way_) {}
  int member(int rank) const {
    return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  }
};

/// State shared by the agents of one rank.
struct Shared {
  Shared(std::unique_ptr<Transport> control_, Stream& compute_, double patience_seconds)
      : control(std::move(control_)), compute(compute_), gpu(*compute.gpu()) {
    std::vector<int> all(static_cast<std::size_t>(control->size()));
    std::iota(all.begin(), all.end(), 0);
    world = join(all);
    watchdog = std::make_unique<NcclWatchdog>(*control, gpu, patience_seconds);
    watchdog->add(*world);
    nothing = gpu.allocate(2 * word, compute.queue());
    compute.synchronise();
  }
  ~Shared() { gpu.release(nothing, compute.queue()); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Creates a communicator of `ranks` from an id that the first of them sends to the others.
  std::unique_ptr<GpuCommunicator> join(const std::vector<int>& ranks) const {
    const auto place = std::ranges::find(ranks, control->rank()) - ranks.begin();
    std::vector<std::byte> id(128);
    if (place == 0) {
      id = gpu.make_communicator_id();
      for (std::size_t i = 1; i < ranks.size(); ++i)
        control->send(control_route(ranks[i]), id, 0)->wait();
    } else {
      control->receive(control_route(ranks.front()), id)->wait();
    }
    return gpu.join(id, static_cast<int>(ranks.size()), static_cast<int>(place));
  }

  Line& add_line(std::tuple<int, int, int> key, std::vector<int> ranks, bool one_way) {
    // All ranks together split the existing communicator; a subset creates a new one, so that the
    // other ranks need not take part.
    auto communicator =
        static_cast<int>(ranks.size()) == world->size()
            ? world->split(
                  0, static_cast<int>(std::ranges::find(ranks, control->rank()) - ranks.begin()))
            : join(ranks);
    watchdog->add(*communicator);
    auto line = std::make_unique<Line>(std::move(communicator), std::move(ranks), gpu, one_way);
    std::lock_guard lock{mutex};
    return *lines.insert_or_assign(key, std::move(line)).first->second;
  }
  Line& line(int channel, int source, int destination) {
    std::lock_guard lock{mutex};
    auto found = lines.find({channel, source, destination});
    if (found == lines.end()) found = lines.find({channel, -1, -1});
    if (found == lines.end())
      throw std::invalid_argument(fmt::format(
          "NCCL was not told that ranks {} and {} talk over this channel (Transport::connect)",
          source, destination));
    return *found->second;
  }

  /// A dummy word that stands in for an empty message, so that it still synchronizes.
  View word_out() const { return {nothing, {1}, DType::i32}; }
  View word_in() const { return {static_cast<std::byte*>(nothing) + word, {1}, DType::i32}; }

  static constexpr std::size_t word = 256;
  std::unique_ptr<Transport> control;
  Stream& compute;
  Gpu& gpu;
  std::unique_ptr<GpuCommunicator> world;
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Line>>
      lines;  ///< by channel; one-way lines also by their ends
  void* nothing = nullptr;
  std::unique_ptr<NcclWatchdog> watchdog;  ///< declared last: it uses the others
};

/// Messages of one line that are submitted together.
struct GatheredMessages {
  struct Message {
    View data;
    int peer;  ///< member of the communicator
    bool is_send;
    MarkPtr ready;
  };
  std::list<Message> messages;
  Marks marks;
  bool gone = false;
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
    Line& line = shared_->line(channel, -1, -1);
    return std::make_unique<NcclCollectives>(*line.communicator, line.lane);
  }
  void connect(const std::vector<int>& ranks, int channel, int count) override {
    for (int i = 0; i < count; ++i) shared_->add_line({channel + i, -1, -1}, ranks, false);
  }
  // Connects from the lower rank to the higher first, and sends one word: NCCL connects two ranks
  // at their first message, and the host blocks inside the call until the other rank calls too. In
  // the middle of a schedule that would be a deadlock: rank 0 would wait for a gradient of rank 1,
  // which waits for an activation.
  void connect(int peer, int channel, Directions directions) override {
    const int self = rank();
    const std::vector<int> ends{std::min(self, peer), std::max(self, peer)};
    for (const auto& [from, to] : {std::pair{ends[0], ends[1]}, {ends[1], ends[0]}}) {
      if (!(from == self ? directions.sends : directions.receives)) continue;
      Line& line = shared_->add_line({channel, from, to}, ends, true);
      if (from == self)
        line.communicator->send(line.lane.queue(), shared_->word_out(), line.member(peer));
      else
        line.communicator->receive(line.lane.queue(), shared_->word_in(), line.member(peer));
      shared_->watchdog->expect(line.lane.record());
    }
  }

  std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into, Combine,
                                   const Event& free) override {
    if (route.channel == control_channel) return shared_->control->receive(route, into);
    return post(route, into.data(), into.size(), false, free);
  }

  void expect(MarkPtr done) override { shared_->watchdog->expect(std::move(done)); }
  void check() const override {
    shared_->control->check();
    shared_->watchdog->check();
  }
  void look() const override {
    check();
    shared_->watchdog->look_for_errors();
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
    if (route.channel == control_channel) return shared_->control->send(route, data, ready);
    return post(route, const_cast<std::byte*>(data.data()), data.size(), true, ready);
  }

 private:
  class Message;

  Transport& control_agent() { return control_worker_ ? *control_worker_ : *shared_->control; }
  std::unique_ptr<Pending> post(const Route& route, std::byte* data, std::size_t size, bool is_send,
                                const Event& ready);
  void go(Line& line, GatheredMessages& batch);
  void send_all_off();

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Transport> control_worker_;  ///< null for the rank's own thread
  std::map<Line*, std::shared_ptr<GatheredMessages>> gathered_;
};

class NcclTransport::Message final : public Pending {
 public:
  Message(NcclTransport& agent, Line& line, std::shared_ptr<GatheredMessages> batch,
          std::list<GatheredMessages::Message>::iterator which)
      : agent_(agent), line_(line), batch_(std::move(batch)), which_(which) {}
  ~Message() override {
    if (!batch_->gone) batch_->messages.erase(which_);
  }

  void wait() override {
    agent_.check();
    agent_.go(line_, *batch_);
    done_nanoseconds_ = steady_nanoseconds();
  }
  Picoseconds departure() const override { return 0; }
  std::int64_t done_nanoseconds() const override { return done_nanoseconds_; }
  Marks marks() const override { return batch_->marks; }

 private:
  NcclTransport& agent_;
  Line& line_;
  std::shared_ptr<GatheredMessages> batch_;
  std::list<GatheredMessages::Message>::iterator which_;
  std::int64_t done_nanoseconds_ = 0;
};

std::unique_ptr<Pending> NcclTransport::post(const Route& route, std::byte* data, std::size_t size,
                                             bool is_send, const Event& ready) {
  const int self = rank();
  Line& line = is_send ? shared_->line(route.channel, self, route.peer)
                       : shared_->line(route.channel, route.peer, self);
  std::shared_ptr<GatheredMessages>& batch = gathered_[&line];
  if (batch == nullptr || batch->gone) batch = std::make_shared<GatheredMessages>();
  // NCCL counts elements; their type does not matter here.
  const bool words = size % 4 == 0;
  const View view = size == 0 ? is_send ? shared_->word_out() : shared_->word_in()
                    : words ? View{data, {static_cast<std::int64_t>(size / 4)}, DType::i32}
                              : View{data, {static_cast<std::int64_t>(size / 2)}, DType::bf16};
  const auto which = batch->messages.insert(batch->messages.end(),
                                            {view, line.member(route.peer), is_send, ready.mark});
  auto message = std::make_unique<Message>(*this, line, batch, which);
  if (line.one_way)
    go(line, *batch);
  else if (control_worker_ == nullptr)
    shared_->compute.before_next_launch([this] { send_all_off(); });
  return message;
}

void NcclTransport::go(Line& line, GatheredMessages& batch) {
  if (batch.gone) return;
  for (const GatheredMessages::Message& each : batch.messages) line.lane.wait({0, each.ready});
  batch.marks.begun = line.lane.record();
  GpuGroup together{*line.communicator};
  for (const GatheredMessages::Message& each : batch.messages)
    if (each.is_send)
      line.communicator->send(line.lane.queue(), each.data, each.peer);
    else
      line.communicator->receive(line.lane.queue(), each.data, each.peer);
  together.go();
  batch.marks.done = line.lane.record();
  batch.gone = true;
  shared_->watchdog->expect(batch.marks.done);
}

void NcclTransport::send_all_off() {
  for (auto& [line, batch] : gathered_) go(*line, *batch);
}

}  // namespace

std::unique_ptr<Transport> nccl_transport(std::unique_ptr<Transport> control, Stream& compute,
                                          double patience_seconds) {
  return std::make_unique<NcclTransport>(
      std::make_shared<Shared>(std::move(control), compute, patience_seconds));
}

}  // namespace lockstep
