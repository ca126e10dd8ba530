// Tests collectives with one process per rank; ctest runs it as mpirun -n P test_mpi_comm. It
// checks Lockstep's algorithms and MPI's against a serial oracle, and the Transport's count of sent
// bytes against the bytes passed to MPI. `disagree I [native]` runs the I-th program in which ranks
// disagree, prints the error and exits with 1; `list` lists these programs. `hang CALL sleep|stop`:
// rank 1 sleeps or is stopped inside this call of MPI, and the lookout ends the run.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/comm/mpi/mpi_check.h"
#include "core/comm/mpi/mpi_transport.h"
#include "core/comm/transport/control.h"
#include "tests/comm/random_programs.h"
#include "tests/support/mismatches.h"
#include "tests/support/narrow_collective_checks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Messages and bytes passed to MPI. Each channel has two tags; the odd tag is for message headers.
struct PassedToMpi {
  std::atomic<std::int64_t> heads{0}, bodies{0}, head_bytes{0}, body_bytes{0};
  void add(int count, MPI_Datatype type, int tag) {
    int size = 0;
    MPI_Type_size(type, &size);
    if (tag / 2 == Transport::control_channel) return;
    (tag % 2 == 1 ? heads : bodies) += 1;
    (tag % 2 == 1 ? head_bytes : body_bytes) += static_cast<std::int64_t>(count) * size;
  }
};
PassedToMpi passed;

/// When the rank's own thread next calls MPI_Test after this time, it sleeps first.
struct Doze {
  using Time = std::chrono::steady_clock::time_point;
  std::thread::id thread = std::this_thread::get_id();
  Time after = Time::max();
  void sleep() {
    if (std::this_thread::get_id() != thread || std::chrono::steady_clock::now() < after) return;
    after = Time::max();
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
};
Doze doze;

/// The call of MPI in which this rank hangs, and how.
std::string hangs_in;
bool is_stopped = false;

void hang_in(const char* call) {
  if (hangs_in != call) return;
  if (is_stopped) std::raise(SIGSTOP);
  while (true) std::this_thread::sleep_for(std::chrono::seconds{1});
}

}  // namespace

// MPI's profiling interface: these functions replace MPI's own, which remain available as PMPI_*.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  passed.add(count, type, tag);
  return PMPI_Isend(data, count, type, to, tag, communicator, request);
}
extern "C" int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag,
                          MPI_Comm communicator, MPI_Request* request) {
  passed.add(count, type, tag);
  return PMPI_Issend(data, count, type, to, tag, communicator, request);
}
extern "C" int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  doze.sleep();
  return PMPI_Test(request, done, status);
}
extern "C" int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm communicator) {
  hang_in("MPI_Allreduce");
  return PMPI_Allreduce(from, to, count, type, op, communicator);
}
extern "C" int MPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag,
                                     MPI_Comm* created) {
  hang_in("MPI_Comm_create_group");
  return PMPI_Comm_create_group(communicator, group, tag, created);
}

namespace {

Options options_of(int ranks, Collectives comm, const Cluster& cluster) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::pp, ranks));
  options.plan.collectives = comm;
  if (comm == Collectives::built_in) options.plan.modelled = {cluster};
  return options;
}

/// Compares these counts of messages and bytes passed to MPI with the counts of the rank's
/// transport.
std::string compare_bytes(Rank& rank, std::int64_t heads, std::int64_t bodies,
                          std::int64_t head_bytes, std::int64_t body_bytes) {
  std::int64_t counted = 0;
  counted += total(rank.transport->bytes_sent());
  if (counted != body_bytes)
    return fmt::format("rank {}: {} bytes counted, but {} passed to MPI\n", rank.id, counted,
                       body_bytes);
  if (rank.transport->traffic().overhead_bytes != head_bytes)
    return fmt::format(
        "rank {}: {} bytes of overhead counted, but headers of {} bytes passed to MPI\n", rank.id,
        rank.transport->traffic().overhead_bytes, head_bytes);
  if (heads != bodies || (heads > 0 && head_bytes % heads != 0))
    return fmt::format("rank {}: {} messages with {} headers of {} bytes in total\n", rank.id,
                       bodies, heads, head_bytes);
  return "";
}

/// `first` ends its part of a run while `last` still waits for it, through a rank that has not
/// noticed yet that its message has arrived. The lookout of `last` therefore asks a rank that is
/// already in the next run. OpenMPI takes a message on a communicator that its receiver has freed
/// for one of MPI_COMM_WORLD's if the receiver is creating a communicator with the same number;
/// then the next message from `last` to `first` never arrives.
void ask_a_rank_that_has_gone_on(const MpiSession& session, int first, int between, int last) {
  using namespace std::chrono_literals;
  {
    Rank rank{options_of(session.size(), Collectives::built_in, {}), session.endpoint()};
    std::vector<float> data(1);
    if (rank.id == first) {
      std::this_thread::sleep_for(60ms);
      rank.world.send(view(data), between).wait();
    } else if (rank.id == between) {
      doze.after = std::chrono::steady_clock::now() + 30ms;
      rank.world.receive(view(data), first).wait();
      rank.world.send(view(data), last).wait();
    } else if (rank.id == last) {
      rank.world.receive(view(data), between).wait();
    }
  }
  Rank rank{options_of(session.size(), Collectives::native, {}), session.endpoint()};
  const int channels = rank.transport->open_channels(Group::channels_taken);
  if (rank.id != first && rank.id != last) return;
  Group pair{rank.endpoint, {first, last}, "pair", channels};
  pair.barrier().wait();
}

int run_checks(const MpiSession& session) {
  if (session.size() == 3 || session.size() == 4)
    for (int first = 0; first < session.size(); ++first)
      for (const int step : {1, 2})
        ask_a_rank_that_has_gone_on(session, first, (first + step) % session.size(),
                                    (first + 3 - step) % session.size());
  int done = 0;
  int failed = 0;
  const auto check = [&](Collectives comm, const std::function<std::string(Rank&)>& body,
                         const Cluster& cluster = {}) {
    Rank rank{options_of(session.size(), comm, cluster), session.endpoint()};
    const PassedToMpi& h = passed;
    const std::int64_t before[] = {h.heads, h.bodies, h.head_bytes, h.body_bytes};
    std::string mine = body(rank);
    mine += compare_bytes(rank, h.heads - before[0], h.bodies - before[1], h.head_bytes - before[2],
                          h.body_bytes - before[3]);
    for (const std::string& wrong : gather_to_root(*rank.transport, mine)) {
      if (wrong.empty()) continue;
      fmt::print(stderr, "{}", wrong);
      ++failed;
    }
    ++done;
  };
  for (const std::int64_t n : {0, 1, 30, 1009, 100'000})
    for (const Collectives comm : {Collectives::built_in, Collectives::native})
      check(comm, [&](Rank& rank) { return CollectiveChecks{rank, n, n < 10'000 ? 9 : 2}(); });
  for (const std::int64_t n : {0, 1, 30, 1009, 100'000})
    for (const int node : {1, 2, 1024}) {
      Cluster cluster;
      cluster.ranks_per_node = node;
      check(
          Collectives::built_in,
          [&](Rank& rank) {
            return CollectiveChecks{rank, n, 0}.of_libraries();
          },
          cluster);
    }
  for (const std::int64_t n : {0, 1, 30, 1009})
    for (const DType dtype : {DType::bf16, DType::f16})
      check(Collectives::built_in, [&](Rank& rank) {
        return NarrowCollectiveChecks{rank, dtype, n}();
      });
  check(Collectives::native, [&](Rank& rank) -> std::string {
    std::vector<std::uint16_t> bits(4);
    try {
      rank.world.all_reduce({bits.data(), {4}, DType::bf16}).wait();
    } catch (const std::invalid_argument&) {
      return "";
    }
    return rank.count == 1 ? "" : "native collectives accepted bf16\n";
  });
  int programs = 0;
  for (unsigned seed = 1; seed <= 300 && programs < 20; ++seed) {
    const Program program = random_program(seed);
    if (program.ranks != session.size()) continue;
    ++programs;
    check(seed % 2 == 0 ? Collectives::built_in : Collectives::native, [&](Rank& rank) {
      Player{rank, program}.play();
      return std::string{};
    });
  }
  if (session.rank() == 0)
    fmt::print("{} checks on {} processes, {} failed\n", done, session.size(), failed);
  return failed == 0 ? 0 : 1;
}

constexpr double patience_seconds = 5;

int disagree(const MpiSession& session, const Mismatch& mismatch, Collectives comm) {
  try {
    Rank rank{options_of(session.size(), comm, {}), session.endpoint(patience_seconds)};
    mismatch.body(rank);
    // If this rank finishes without an error, it waits until the other ranks have reported their
    // errors.
    gather_to_root(*rank.transport, "");
    broadcast_from_root(*rank.transport, "");
    fmt::print("went through\n");
    return 0;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string lacks = missing(text, mismatch.words);
    const bool waited = mismatch.may_wait && missing(text, {"has waited", "mismatches.h:"}).empty();
    fmt::print("{}\n", lacks.empty() || waited ? "reported: " + text : lacks);
  }
  std::fflush(stdout);
  session.abort(1);
}

int hang(const MpiSession& session, const std::string& call, bool stopped) {
  if (session.rank() == 1) hangs_in = call;
  is_stopped = stopped;
  Rank rank{options_of(session.size(), Collectives::native, {}), session.endpoint(3)};
  std::vector<float> data(1);
  rank.world.all_reduce(view(data)).wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto all = mismatches();
  if (argc == 2 && std::strcmp(argv[1], "list") == 0) {
    for (std::size_t i = 0; i < all.size(); ++i) fmt::print("{} {}\n", i, all[i].name);
    return 0;
  }
  const MpiSession session{/*native=*/true};
  try {
    if (argc == 4 && std::strcmp(argv[1], "hang") == 0)
      return hang(session, argv[2], std::strcmp(argv[3], "stop") == 0);
    if (argc >= 3)
      return disagree(session, all.at(static_cast<std::size_t>(std::atoi(argv[2]))),
                      argc > 3 ? Collectives::native : Collectives::built_in);
    return run_checks(session);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
}
