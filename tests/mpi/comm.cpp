// Tests collectives with one process per rank; ctest runs it as mpirun -n P test_mpi_comm. It
// checks Lockstep's algorithms and MPI's against a serial oracle, and the Transport's count of sent
// bytes against the bytes passed to MPI. `disagree I [native]` runs the I-th program in which ranks
// disagree, prints the error and exits with 1; `list` lists these programs.

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

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

int run_checks(const MpiSession& session) {
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

}  // namespace

int main(int argc, char** argv) {
  const auto all = mismatches();
  if (argc == 2 && std::strcmp(argv[1], "list") == 0) {
    for (std::size_t i = 0; i < all.size(); ++i) fmt::print("{} {}\n", i, all[i].name);
    return 0;
  }
  const MpiSession session{/*native=*/true};
  try {
    if (argc >= 3)
      return disagree(session, all.at(static_cast<std::size_t>(std::atoi(argv[2]))),
                      argc > 3 ? Collectives::native : Collectives::built_in);
    return run_checks(session);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
}
