// Measures the overhead of sharing cores: the CPU time of a whole run of lesson 09 with 8 ranks,
// divided by the CPU time of one rank doing the same work (same model, batch and microbatches).
//
// CPU time is the user and system time of all threads and processes of the run. Each configuration
// runs once with many steps and once with few. The difference is the cost of the extra steps,
// because startup (MPI_Init, initial values) and shutdown cancel out. The parity check and the
// trace are off (--parity off, --trace none).

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/bench/side_by_side.h"

using namespace lockstep::bench;

namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Runs lesson 09 and returns the CPU time, in seconds, of the lesson and all its child processes.
double processor_time(int ranks, const std::string& launch, int microbatches, int steps) {
  std::vector<std::string> words{LOCKSTEP_LESSON,
                                 "--ranks",
                                 std::to_string(ranks),
                                 "--launch",
                                 launch,
                                 "--steps",
                                 std::to_string(steps),
                                 "--microbatches",
                                 std::to_string(microbatches),
                                 "--layers",
                                 "8",
                                 "--hidden",
                                 "128",
                                 "--heads",
                                 "4",
                                 "--sequence",
                                 "128",
                                 "--batch",
                                 "8",
                                 "--clock",
                                 "modelled",
                                 "--parity",
                                 "off",
                                 "--trace",
                                 "none",
                                 "--quiet"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("can't start the lesson");
  if (child == 0) {
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  if (status != 0) throw std::runtime_error(fmt::format("the lesson ended with {:#x}", status));
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void processor_time_ratio(benchmark::State& state, const std::string& launch, int microbatches) {
  constexpr int short_run = 2;
  constexpr int long_run = 12;
  constexpr int rounds = 5;
  const auto of_steps = [&](int ranks, const std::string& how) {
    return processor_time(ranks, how, microbatches, long_run) -
           processor_time(ranks, how, microbatches, short_run);
  };
  std::vector<double> ratios, ours, other;
  try {
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(of_steps(8, launch));
      other.push_back(of_steps(1, "threads"));
      ratios.push_back(ours.back() / other.back());
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
    return;
  }
  state.counters["value"] = median(ratios);
  state.counters["low"] = quantile(ratios, 0.25);
  state.counters["high"] = quantile(ratios, 0.75);
  state.counters["at_most"] = 1.3;
  state.counters["ours_ms"] = 1e3 * median(ours);
  state.counters["other_ms"] = 1e3 * median(other);
  state.SetLabel(fmt::format("processor time of 8 ranks ({}) over one device's, m = {}, {} steps",
                             launch, microbatches, long_run - short_run));
}

[[maybe_unused]] const bool registered = [] {
  std::vector<std::string> launches{"threads"};
#ifdef LOCKSTEP_HAS_MPI
  launches.emplace_back("mpi");
#endif
  for (const std::string& launch : launches)
    for (const int m : {1, 8})
      add(fmt::format("eight_ranks_{}_m{}", launch, m),
          [=](benchmark::State& state) { processor_time_ratio(state, launch, m); });
  return true;
}();

}  // namespace
