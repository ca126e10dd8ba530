// Compares our ring all_reduce, between four threads and between four processes, with the MPI
// library's all_reduce between the same processes, over shared memory. The program restarts itself
// under mpirun.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "core/comm/mpi/environment.h"
#include "core/comm/mpi/mpi_transport.h"
#include "core/run/launch/launch.h"
#include "tests/bench/side_by_side.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr int ranks = 4;
constexpr int rounds = 21;
constexpr std::int64_t megabyte = 1 << 20;

Options four_ranks() {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, ranks));
  options.output.trace = "none";
  return options;
}

/// Returns the number of operations to run between two barriers: enough to make the barriers' skew
/// negligible.
int operations(std::int64_t bytes) {
  return static_cast<int>(std::max<std::int64_t>(64 * megabyte / bytes, 2));
}

int process() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Returns, on every process, the number of seconds that `work` takes on the slowest process.
template <class Work>
double slowest(Work&& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  double mine = seconds_of(work);
  double most = 0;
  MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

double native(std::vector<float>& data, int times) {
  return slowest([&] {
    for (int i = 0; i < times; ++i)
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
  });
}

/// Calls `work` on process 0 while the other processes sleep. They do not wait in an MPI barrier,
/// because that would keep a core busy.
void alone(const std::function<void()>& work) {
  constexpr int tag = 1;
  if (process() == 0) {
    work();
    for (int other = 1; other < ranks; ++other)
      MPI_Send(nullptr, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD);
    return;
  }
  for (int there = 0; there == 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    MPI_Iprobe(0, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  }
  MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// Checks the sum. Each element was 1 on every rank before the all_reduce, and must equal the
/// number of ranks afterwards.
void check_sum(Rank& rank, View data) {
  rank.device.compute.kernels().fill({}, data, 1.0F);
  rank.world.all_reduce(data).wait();
  const auto wrong = std::find_if(data.f32(), data.f32() + data.elements(),
                                  [](float sum) { return sum != static_cast<float>(ranks); });
  if (wrong != data.f32() + data.elements())
    throw RunError(fmt::format("all_reduce of ones: rank {} has {}", rank.id, *wrong));
  rank.device.compute.kernels().fill({}, data, 0.0F);
}

/// Four threads that run all_reduce on demand.
class ThreadedRing {
 public:
  ThreadedRing(std::int64_t bytes, int times) {
    driver_ = std::thread{[=, this] {
      const std::string failure = testing::on_threads(four_ranks(), [=, this](Rank& rank) {
        Tensor data{rank.memory, {bytes / 4}, MemoryCategory::communication};
        check_sum(rank, data);
        while (true) {
          meet_.arrive_and_wait();
          if (over_) return;
          taken_[rank.id] = seconds_of([&] {
            for (int i = 0; i < times; ++i) rank.world.all_reduce(data).wait();
          });
          meet_.arrive_and_wait();
        }
      });
      if (failure.empty()) return;
      fmt::print(stderr, "{}\n", failure);
      std::_Exit(1);  // otherwise the main thread would wait forever; mpirun ends the others
    }};
  }
  ~ThreadedRing() {
    over_ = true;
    meet_.arrive_and_wait();
    driver_.join();
  }

  /// Returns the slowest rank's time in seconds.
  double run() {
    meet_.arrive_and_wait();
    meet_.arrive_and_wait();
    return *std::max_element(std::begin(taken_), std::end(taken_));
  }

 private:
  std::barrier<> meet_{ranks + 1};
  bool over_ = false;
  double taken_[ranks] = {};
  std::thread driver_;
};

void threads_against_native(benchmark::State& state, std::int64_t bytes, double at_least) {
  const int times = operations(bytes);
  std::vector<float> theirs(static_cast<std::size_t>(bytes / 4));
  std::unique_ptr<ThreadedRing> ring;
  if (process() == 0) ring = std::make_unique<ThreadedRing>(bytes, times);
  const auto ours = [&] {
    double taken = 0;
    alone([&] { taken = ring->run(); });
    return taken;
  };
  const SideBySide sides = take_turns(rounds, ours, [&] { return native(theirs, times); });
  report(state, sides, at_least,
         "ring of 4 threads, times as fast as MPI_Allreduce of 4 processes");
}

void processes_against_native(benchmark::State& state, const MpiSession& session,
                              std::int64_t bytes, double at_least) {
  const int times = operations(bytes);
  Rank rank{four_ranks(), session.endpoint()};
  Tensor data{rank.memory, {bytes / 4}, MemoryCategory::communication};
  check_sum(rank, data);
  std::vector<float> theirs(static_cast<std::size_t>(bytes / 4));
  const auto ours = [&] {
    return slowest([&] {
      for (int i = 0; i < times; ++i) rank.world.all_reduce(data).wait();
    });
  };
  const SideBySide sides = take_turns(rounds, ours, [&] { return native(theirs, times); });
  report(state, sides, at_least, "ring of 4 processes, times as fast as MPI_Allreduce");
}

/// Silences all but one process of a run.
class Silence final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  if (!under_mpi()) return run_under_mpirun(ranks, argc, argv);
  const MpiSession session{/*native=*/true};
  std::vector<char*> words{argv, argv + argc};
  if (session.rank() != 0)
    std::erase_if(words, [](const char* word) {
      return std::strncmp(word, "--benchmark_out", std::strlen("--benchmark_out")) == 0;
    });
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, words.data());
  try {
    add("threads_all_reduce_16MB",
        [](benchmark::State& state) { threads_against_native(state, 16 * megabyte, 1.5); });
    for (const auto& [megabytes, at_least] :
         {std::pair{1, 0.8}, std::pair{4, 0.8}, std::pair{16, 1.0}, std::pair{64, 1.0}})
      add(fmt::format("mpi_all_reduce_{}MB", megabytes),
          [&, megabytes = megabytes, at_least = at_least](benchmark::State& state) {
            processes_against_native(state, session, megabytes * megabyte, at_least);
          });
    if (session.rank() == 0) {
      benchmark::RunSpecifiedBenchmarks();
    } else {
      Silence silence;
      benchmark::RunSpecifiedBenchmarks(&silence);
    }
    benchmark::ClearRegisteredBenchmarks();
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
}
