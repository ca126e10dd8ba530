// Runs the benchmarks of bench_copies.cpp with two ranks in processes. The program restarts itself
// under mpirun.

#include <cstring>

#include "core/comm/mpi/environment.h"
#include "core/comm/mpi/mpi_transport.h"
#include "core/run/launch/launch.h"
#include "tests/bench/copies.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

/// Silences all but one process of a run.
class Silence final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  if (!under_mpi()) return run_under_mpirun(2, argc, argv);
  const MpiSession session{/*native=*/false};
  std::vector<char*> words{argv, argv + argc};
  if (session.rank() != 0)
    std::erase_if(words, [](const char* word) {
      return std::strncmp(word, "--benchmark_out", std::strlen("--benchmark_out")) == 0;
    });
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, words.data());
  try {
    add_copies("mpi", 41, [&](const Options& options, const std::function<void(Rank&)>& body) {
      Rank rank{options, session.endpoint()};
      body(rank);
      return std::string{};
    });
    Silence silence;
    benchmark::RunSpecifiedBenchmarks(session.rank() == 0 ? nullptr : &silence);
    benchmark::ClearRegisteredBenchmarks();
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
}
