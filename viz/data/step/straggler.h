#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// The rank that computes for the longest time in a step, relative to the median of its peers: the
/// ranks that hold the same stages or, if no two ranks do, all other ranks.
struct Straggler {
  int rank = -1;
  Picoseconds compute = 0;  ///< of the rank, including the optimizer
  Picoseconds usual = 0;    ///< the median of its peers; of an even number, the lower one
  std::size_t peers = 0;
  int stage = -1;  ///< of the rank, if its peers hold other stages: it is then a slow stage

  double ratio() const { return static_cast<double>(compute) / static_cast<double>(usual); }
};
/// A rank is a straggler only if it computes for at least this multiple of its peers' median.
constexpr double least_straggler = 1.05;

/// Returns the straggler of a step, or nothing if no rank computes for clearly longer than its
/// peers. `stages` are the stages that each rank of the account holds.
std::optional<Straggler> straggler_of(const StepAccount& account,
                                      const std::vector<std::set<int>>& stages);

/// Names it: "straggler: rank 13" or, in a pipeline, "slow stage: rank 2".
std::string straggler_name(const Straggler& straggler);
/// Returns the change of a Scenario that gives the rank its peers' pace.
std::string change_to_peers_pace(const Straggler& straggler);
/// Says how long the step would take with this change: "Without this straggler, the step would take
/// 129 µs (18 µs less)."
std::string cost_words(const Straggler& straggler, Picoseconds recorded, Picoseconds changed);
/// Says why: "rank 13 computes for 3.20 ms, 1.50 times the median of its 7 peers, which hold the
/// same stages".
std::string straggler_words(const Straggler& straggler);

}  // namespace lockstep::viz
