#include "core/comm/mpi_transport.h"

#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/time/clock.h"

namespace lockstep {

namespace {

/// Checks one MPI call: evaluates it once; on failure throws with the call, the reason and the
/// rank.
void check(int status, const char* call, int rank) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw RunError(fmt::format("rank {}: {}: {}", rank, call,
                             std::string(text, static_cast<std::size_t>(length))));
}

/// Two MPI tags a channel: the departure time, and the bytes.
int tag_of(int channel, bool head) {
  return 2 * channel + (head ? 1 : 0);
}

int count_of(std::size_t size) {
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw RunError(
        fmt::format("a message of {} bytes; MPI takes at most 2147483647 at once", size));
  return static_cast<int>(size);
}

class MpiPending;

/// Who has waited for so long waits for a rank that has stalled, or in a deadlock.
constexpr std::chrono::seconds patience{60};

/// The messages of one rank that are not done yet. MPI makes progress only inside its calls, so
/// whoever waits looks after all of them, and each learns when it was done.
struct MpiLive {
  std::mutex mutex;
  std::vector<MpiPending*> pending;
  void look_after_all();
};

class MpiPending final : public Pending {
 public:
  MpiPending(MpiLive& live, int rank, const Route& route, std::size_t size, bool is_send)
      : live_(live), rank_(rank), route_(route), size_(size), is_send_(is_send) {}

  /// To be called when its requests have been started.
  void started() {
    std::lock_guard lock{live_.mutex};
    live_.pending.push_back(this);
  }

  // A receive that is not done is cancelled. A send can't be: MPI goes on reading the buffer until
  // it is matched, so what follows must be the end of the run (an exception on its way to abort()),
  // and what MPI still refers to is left behind.
  ~MpiPending() override {
    std::lock_guard lock{live_.mutex};
    std::erase(live_.pending, this);
    for (MPI_Request* request : {&head_, &body_}) {
      if (*request == MPI_REQUEST_NULL) continue;
      if (is_send_) {
        MPI_Request_free(request);
        static_cast<void>(departure_.release());
        departure_ = std::make_unique<Picoseconds>();
      } else {
        MPI_Cancel(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
      }
    }
  }

  // A core is not held while waiting: for some 200 µs the thread yields, then it sleeps, longer and
  // longer, up to 1 ms.
  void wait() override {
    using namespace std::chrono;
    const auto begin = steady_clock::now();
    auto nap = microseconds{20};
    while (true) {
      live_.look_after_all();
      if (done_nanoseconds_ != 0) break;
      const auto waited = steady_clock::now() - begin;
      if (waited > patience && route_.channel != Transport::control_channel)
        throw RunError(
            fmt::format("{} of {} bytes in {} ({}:{}) has waited for rank {} for {} s",
                        is_send_ ? "sending" : "receiving", size_, route_.operation,
                        std::filesystem::path(route_.where.file_name()).filename().string(),
                        route_.where.line(), route_.peer, patience.count()));
      if (waited < microseconds{200}) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(nap);
        nap = std::min(nap * 2, microseconds{1000});
      }
    }
  }

  Picoseconds departure() const override { return *departure_; }
  std::int64_t done_nanoseconds() const override { return done_nanoseconds_; }

  /// Looks once whether it is done.
  void look() {
    if (done_nanoseconds_ == 0 && done()) done_nanoseconds_ = steady_nanoseconds();
  }

  MPI_Request head_ = MPI_REQUEST_NULL;
  MPI_Request body_ = MPI_REQUEST_NULL;
  std::unique_ptr<Picoseconds> departure_ = std::make_unique<Picoseconds>();

 private:
  bool done() {
    int head_done = 1;
    int body_done = 1;
    MPI_Status status;
    check(MPI_Test(&head_, &head_done, MPI_STATUS_IGNORE), "MPI_Test", rank_);
    if (body_ != MPI_REQUEST_NULL) {
      const int result = MPI_Test(&body_, &body_done, &status);
      if (result != MPI_SUCCESS) {
        int code = 0;
        MPI_Error_class(result, &code);
        if (code == MPI_ERR_TRUNCATE) mismatch("more");
        check(result, "MPI_Test", rank_);
      }
      if (body_done != 0 && !is_send_) {
        int received = 0;
        MPI_Get_count(&status, MPI_BYTE, &received);
        if (static_cast<std::size_t>(received) != size_) mismatch(std::to_string(received));
      }
    }
    return head_done != 0 && body_done != 0;
  }

  [[noreturn]] void mismatch(const std::string& sent) {
    throw RunError(fmt::format("rank {} sends {} bytes where rank {} receives {} ({})", route_.peer,
                               sent, rank_, size_, route_.operation));
  }

  MpiLive& live_;
  int rank_;
  Route route_;
  std::size_t size_;
  bool is_send_;
  std::int64_t done_nanoseconds_ = 0;
};

void MpiLive::look_after_all() {
  std::lock_guard lock{mutex};
  for (MpiPending* each : pending) each->look();
  std::erase_if(pending, [](MpiPending* each) { return each->done_nanoseconds() != 0; });
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(int rank, int size) : rank_(rank), size_(size) {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup", rank);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  }
  ~MpiTransport() override { MPI_Comm_free(&communicator_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* name() const override { return "mpi"; }

  std::unique_ptr<Pending> receive(const Route& route, std::span<std::byte> into) override {
    auto pending = std::make_unique<MpiPending>(live_, rank_, route, into.size(), false);
    check(MPI_Irecv(pending->departure_.get(), sizeof(Picoseconds), MPI_BYTE, route.peer,
                    tag_of(route.channel, true), communicator_, &pending->head_),
          "MPI_Irecv", rank_);
    check(MPI_Irecv(into.data(), count_of(into.size()), MPI_BYTE, route.peer,
                    tag_of(route.channel, false), communicator_, &pending->body_),
          "MPI_Irecv", rank_);
    pending->started();
    return pending;
  }

 protected:
  std::unique_ptr<Pending> post_send(const Route& route, std::span<const std::byte> data,
                                     Picoseconds departure) override {
    auto pending = std::make_unique<MpiPending>(live_, rank_, route, data.size(), true);
    *pending->departure_ = departure;
    check(MPI_Isend(pending->departure_.get(), sizeof(Picoseconds), MPI_BYTE, route.peer,
                    tag_of(route.channel, true), communicator_, &pending->head_),
          "MPI_Isend", rank_);
    check(MPI_Issend(data.data(), count_of(data.size()), MPI_BYTE, route.peer,
                     tag_of(route.channel, false), communicator_, &pending->body_),
          "MPI_Issend", rank_);
    pending->started();
    return pending;
  }

 private:
  int rank_;
  int size_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MpiLive live_;
};

}  // namespace

MpiSession::MpiSession() {
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

std::unique_ptr<Transport> MpiSession::endpoint() const {
  return std::make_unique<MpiTransport>(rank_, size_);
}

void MpiSession::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

}  // namespace lockstep
