#include "core/comm/mpi/mpi_transport.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/comm/mpi/mpi_check.h"
#include "core/comm/mpi/mpi_communicator.h"
#include "core/comm/mpi/mpi_lookout.h"
#include "core/comm/mpi/mpi_native.h"
#include "core/comm/mpi/polling.h"
#include "core/comm/transport/staging.h"
#include "core/time/clock.h"

namespace lockstep {

namespace {

class MpiTransport;

/// The header sent before each message. It holds the message's modelled departure time and the
/// sender's description of the message. A receiver that expects a different message can therefore
/// report both.
struct Head {
  Picoseconds departure = 0;
  std::int64_t bytes = 0;
  std::int64_t whole = -1;
  std::int64_t number = -1;
  std::int32_t root = -1;
  char operation[24] = "";
  char algorithm[24] = "";
  char group[24] = "";
  char file[48] = "";
  std::int32_t line = 0;
};

template <std::size_t size>
void write_word(char (&into)[size], const char* text) {
  if (text != nullptr) std::strncpy(into, text, size - 1);
}

Head head_of(const Route& route, std::size_t bytes, Picoseconds departure) {
  Head head{.departure = departure,
            .bytes = static_cast<std::int64_t>(bytes),
            .whole = route.whole,
            .number = route.number,
            .root = route.root,
            .line = static_cast<std::int32_t>(route.where.line())};
  write_word(head.operation, route.operation);
  write_word(head.algorithm, route.algorithm);
  write_word(head.group, route.group);
  const char* slash = std::strrchr(route.where.file_name(), '/');
  write_word(head.file, slash != nullptr ? slash + 1 : route.where.file_name());
  return head;
}

/// Each channel has two MPI tags: one for headers and one for payloads.
int tag_of(int channel, bool head) {
  return 2 * channel + (head ? 1 : 0);
}

class MpiPending;

/// One rank's messages that are not done yet. MPI makes progress only inside its calls, so each
/// waiting agent polls all of these messages, and each message records the time at which it was
/// done.
struct MpiLive {
  std::mutex mutex;
  std::vector<MpiPending*> pending;
  std::string failure;  ///< the first failure; ends the waits of all agents
  void look_after_all();
};

class MpiPending final : public Pending {
 public:
  MpiPending(MpiLive& live, const MpiTransport& agent, const Route& route, std::size_t size,
             bool is_send)
      : live_(live), agent_(agent), route_(route), size_(size), is_send_(is_send) {}

  /// Call this when the message's requests have started.
  void started() {
    std::lock_guard lock{live_.mutex};
    live_.pending.push_back(this);
  }

  // Cancels a receive that is not done; MPI allows this only until the receive is matched. A send
  // cannot be cancelled, so MPI keeps reading the send's buffer. Memory that MPI still uses is
  // leaked, so the run must end after this call (an exception propagates to abort()).
  ~MpiPending() override {
    std::lock_guard lock{live_.mutex};
    std::erase(live_.pending, this);
    bool left_behind = false;
    for (MPI_Request* request : {&head_request, &body_request})
      left_behind = (*request != MPI_REQUEST_NULL && !withdraw(*request)) || left_behind;
    if (!left_behind) return;
    static_cast<void>(head.release());
    staged.leave();
  }

  void wait() override;
  Marks marks() const override { return moved; }
  Picoseconds departure() const override { return head->departure; }
  std::int64_t done_nanoseconds() const override { return done_nanoseconds_; }

  /// Polls once for completion.
  void look() {
    if (done_nanoseconds_ == 0 && is_done()) done_nanoseconds_ = steady_nanoseconds();
  }

  MPI_Request head_request = MPI_REQUEST_NULL;
  MPI_Request body_request = MPI_REQUEST_NULL;
  std::unique_ptr<Head> head = std::make_unique<Head>();
  Staged staged;  ///< for bytes on a GPU
  std::byte* into = nullptr;
  Event free;
  Marks moved;

 private:
  bool is_done();
  void compare() const;
  /// Cancels a receive's request. Returns whether MPI no longer uses the request's buffer.
  bool withdraw(MPI_Request& request) const;

  MpiLive& live_;
  const MpiTransport& agent_;
  Route route_;
  std::size_t size_;
  bool is_send_;
  std::atomic<std::int64_t> done_nanoseconds_{0};
};

void MpiLive::look_after_all() {
  std::lock_guard lock{mutex};
  if (!failure.empty()) throw RunError(failure);
  try {
    for (MpiPending* each : pending) each->look();
  } catch (const RunError& error) {
    failure = error.what();
    throw;
  }
  std::erase_if(pending, [](MpiPending* each) { return each->done_nanoseconds() != 0; });
}

/// One agent's endpoint. All agents of a process share a communicator and poll each other's
/// messages.
class MpiTransport final : public Transport {
 public:
  struct Shared {
    int rank;
    int size;
    double patience_seconds;
    MPI_Comm communicator;
    MpiLive live;
    MpiLookout lookout;

    Shared(int rank_, int size_, double patience_seconds_, const MpiCommunicators& communicators,
           MpiLookout::Reports reports)
        : rank(rank_),
          size(size_),
          patience_seconds(patience_seconds_),
          communicator(communicators.messages),
          lookout(rank_, size_, communicators.lookouts, patience_seconds_, std::move(reports)) {}
  };

  MpiTransport(std::shared_ptr<Shared> shared, std::shared_ptr<Account> account)
      : Transport(std::move(account)), shared_(std::move(shared)) {}
  explicit MpiTransport(std::shared_ptr<Shared> shared)
      : MpiTransport(std::move(shared), std::make_shared<Account>()) {}

  int rank() const override { return shared_->rank; }
  int size() const override { return shared_->size; }
  const char* name() const override { return "mpi"; }
  double patience_seconds() const { return shared_->patience_seconds; }
  bool gives_up() const { return gives_up_; }
  MpiLookout& lookout() const { return shared_->lookout; }

  std::unique_ptr<Transport> worker(const std::string&) override {
    auto worker = std::make_unique<MpiTransport>(shared_, account());
    if (gpu_queue() != nullptr) worker->use(gpu_queue()->gpu());
    return worker;
  }
  void use(Gpu& gpu) override {
    Transport::use(gpu);
    pinned_ = std::make_unique<PinnedBuffers>(gpu);
  }
  void computes_on(const Stream& compute) override { lookout().computes_on(compute); }
  void give_up(bool now) override { gives_up_ = now; }
  void check() const override {
    std::lock_guard lock{shared_->live.mutex};
    if (!shared_->live.failure.empty()) throw RunError(shared_->live.failure);
  }

  std::unique_ptr<NativeCollectives> native(const std::vector<int>& ranks, int channel) override {
    return mpi_collectives(ranks, rank(), channel, lookout());
  }

  std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into, Combine,
                                   const Event& free) override {
    const std::size_t moved = into.data() != nullptr ? into.size() : 0;
    auto pending = std::make_unique<MpiPending>(shared_->live, *this, route, into.size(), false);
    std::byte* place = into.data();
    if (on_gpu(route)) {
      pending->staged = Staged{*gpu_queue(), *pinned_, moved};
      pending->into = std::exchange(place, pending->staged.data());
      pending->free = free;
    }
    check_mpi(MPI_Irecv(pending->head.get(), sizeof(Head), MPI_BYTE, route.peer,
                        tag_of(route.channel, true), shared_->communicator, &pending->head_request),
              "MPI_Irecv", rank());
    check_mpi(MPI_Irecv(place, mpi_count(moved), MPI_BYTE, route.peer, tag_of(route.channel, false),
                        shared_->communicator, &pending->body_request),
              "MPI_Irecv", rank());
    pending->started();
    return pending;
  }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     const Event& ready) override {
    const std::size_t moved = data.data() != nullptr ? data.size() : 0;
    auto pending = std::make_unique<MpiPending>(shared_->live, *this, route, data.size(), true);
    *pending->head = head_of(route, data.size(), ready.time);
    const std::byte* place = data.data();
    if (on_gpu(route)) {
      pending->staged = Staged{*gpu_queue(), *pinned_, moved};
      pending->moved = pending->staged.fetch(data.data(), moved, ready);
      place = pending->staged.data();
    }
    if (!is_control(route.channel)) count_overhead(sizeof(Head));
    check_mpi(MPI_Isend(pending->head.get(), sizeof(Head), MPI_BYTE, route.peer,
                        tag_of(route.channel, true), shared_->communicator, &pending->head_request),
              "MPI_Isend", rank());
    check_mpi(
        MPI_Issend(place, mpi_count(moved), MPI_BYTE, route.peer, tag_of(route.channel, false),
                   shared_->communicator, &pending->body_request),
        "MPI_Issend", rank());
    pending->started();
    return pending;
  }

 private:
  bool on_gpu(const Route& route) const {
    return gpu_queue() != nullptr && !is_control(route.channel);
  }

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<PinnedBuffers> pinned_;  ///< staging buffers for bytes on a GPU
  std::atomic<bool> gives_up_{false};
};

// Detects a stall: throws WaitedTooLong once the peer has neither arrived nor computed for the
// time-out. Only time slept counts towards it, so a process that is stopped in a debugger does not
// time out. The time-out restarts when the lookout finds a computing rank.
void MpiPending::wait() {
  Polling polling;
  double patience = agent_.patience_seconds();
  std::optional<MpiLookout::Waiting> known;  // set once the wait has lasted long
  while (true) {
    live_.look_after_all();
    if (done_nanoseconds_ != 0) {
      if (staged && !is_send_) moved = staged.deliver(into, size_, free);
      staged = {};
      return;
    }
    if (agent_.gives_up()) throw RunError("given up");
    if (patience < 0 && !Transport::is_control(route_.channel))
      throw WaitedTooLong(
          fmt::format("has waited {:g} s {}", agent_.patience_seconds(),
                      waits_for(route_, is_send_, static_cast<std::int64_t>(size_))));
    if (!known && std::chrono::steady_clock::now() - polling.begin() > MpiLookout::interval)
      known.emplace(agent_.lookout(), route_.peer);
    if (known && known->somebody_has_computed()) patience = agent_.patience_seconds();
    patience -= std::min(polling.pause(), 0.1);
  }
}

bool MpiPending::withdraw(MPI_Request& request) const {
  using namespace std::chrono;
  int done = 0;
  if (!is_send_) {
    MPI_Cancel(&request);
    Polling polling;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
           steady_clock::now() - polling.begin() < milliseconds{100})
      polling.pause();
  }
  if (done == 0) MPI_Request_free(&request);
  return done != 0;
}

bool MpiPending::is_done() {
  int head_done = 1;
  int body_done = 1;
  if (head_request != MPI_REQUEST_NULL) {
    check_mpi(MPI_Test(&head_request, &head_done, MPI_STATUS_IGNORE), "MPI_Test", agent_.rank());
    if (head_done != 0 && !is_send_) compare();
  }
  if (head_done == 0) return false;
  if (body_request != MPI_REQUEST_NULL)
    check_mpi(MPI_Test(&body_request, &body_done, MPI_STATUS_IGNORE), "MPI_Test", agent_.rank());
  return body_done != 0;
}

// Checks the sender's description of the message against this receive.
void MpiPending::compare() const {
  Route sent = route_;
  sent.operation = head->operation;
  sent.whole = head->whole;
  sent.number = head->number;
  sent.root = head->root;
  sent.algorithm = head->algorithm;
  sent.group = head->group[0] != '\0' ? head->group : nullptr;
  if (fit_together(sent, head->bytes, route_, static_cast<std::int64_t>(size_))) return;
  throw RunError(
      mismatch({route_.peer, sent, head->bytes, fmt::format("{}:{}", head->file, head->line)},
               {agent_.rank(), route_, static_cast<std::int64_t>(size_), place(route_.where)}));
}

}  // namespace

MpiSession::MpiSession(bool native) {
  wake_up_promptly();  // before MPI starts its threads
  // By default, with more ranks than cores, OpenMPI calls sched_yield() in every MPI_Test that
  // finds nothing.
  if (!native) ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", /*overwrite=*/0);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE)
    throw RunError(
        "this MPI does not support MPI_THREAD_MULTIPLE; OpenMPI from the distribution does");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

std::unique_ptr<Transport> MpiSession::endpoint(double patience_seconds, Notice busy,
                                                Notice hung) const {
  if (!communicators_) communicators_ = std::make_unique<MpiCommunicators>(rank_, patience_seconds);
  if (!hung)
    hung = [this](const std::string& why) {
      fmt::print(stderr, "rank {} {}\n", rank_, why);
      abort(1);
    };
  return std::make_unique<MpiTransport>(std::make_shared<MpiTransport::Shared>(
      rank_, size_, patience_seconds, *communicators_,
      MpiLookout::Reports{std::move(busy), std::move(hung)}));
}

void MpiSession::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

}  // namespace lockstep
