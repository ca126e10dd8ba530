#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/run/rank/rank.h"

namespace lockstep {

/// How one rank spent a step.
struct StepTimes {
  Picoseconds compute = 0, message = 0, barrier = 0;
  Picoseconds waiting() const { return message + barrier; }
  Picoseconds total() const { return compute + waiting(); }
};

/// The share of all ranks' time lost to waiting if N - 1 ranks need time T each and one straggler
/// needs kT. Every rank's step takes as long as that of the slowest rank.
inline double lost_share(int N, double k) {
  return k >= 1 ? (N - 1) * (k - 1) / (N * k) : (1 - k) / N;
}
/// The lost share that was observed.
inline double lost_share(const std::vector<StepTimes>& ranks) {
  double waiting = 0, total = 0;
  for (const StepTimes& each : ranks) {
    waiting += seconds(each.waiting());
    total += seconds(each.total());
  }
  return total > 0 ? waiting / total : 0;
}

/// Gathers all ranks' times on rank 0; every rank must call this. The lesson's byte counts do not
/// include these messages.
inline std::vector<StepTimes> gather(Rank& rank, const StepTimes& mine) {
  std::vector<StepTimes> all;
  for (const std::string& text : gather_to_root(
           *rank.transport, fmt::format("{} {} {}", mine.compute, mine.message, mine.barrier))) {
    std::istringstream words{text};
    StepTimes each;
    words >> each.compute >> each.message >> each.barrier;
    all.push_back(each);
  }
  return all;
}

/// Prints the table of the last step. `k` is the straggler's compute time relative to the other
/// ranks'.
inline void print_waiting(const std::vector<StepTimes>& ranks, double k, const Clock& clock) {
  const auto micro = [](Picoseconds time) { return 1e6 * seconds(time); };
  fmt::print("\n  the last step, {} clock, in µs\n", clock.name());
  fmt::print("           computes   waits for its message   waits in the barrier   waits in all\n");
  for (std::size_t i = 0; i < ranks.size(); ++i)
    fmt::print("  rank {:<2}{:>11.5f}{:>24.5f}{:>23.5f}{:>13.1f} %\n", i, micro(ranks[i].compute),
               micro(ranks[i].message), micro(ranks[i].barrier), 100 * lost_share({ranks[i]}));
  const int N = static_cast<int>(ranks.size());
  fmt::print("  lost to waiting: {:.1f} % of all ranks' time; by the formula {} {:.1f} %\n",
             100 * lost_share(ranks), k >= 1 ? "(N-1)(k-1)/(Nk)" : "(1-k)/N",
             100 * lost_share(N, k));
  std::fflush(stdout);
}

/// The ranks' times as JSON, for the report.
inline std::string json(const std::vector<StepTimes>& ranks, double k) {
  std::string list;
  for (const StepTimes& each : ranks)
    list += fmt::format(R"({}{{"compute_seconds":{},"message_seconds":{},"barrier_seconds":{}}})",
                        list.empty() ? "" : ",", seconds(each.compute), seconds(each.message),
                        seconds(each.barrier));
  return fmt::format(R"({{"ranks":[{}],"lost":{},"predicted":{}}})", list, lost_share(ranks),
                     lost_share(static_cast<int>(ranks.size()), k));
}

}  // namespace lockstep
