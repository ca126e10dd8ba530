#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// The rank whose computing costs a step the most: at its slowest peer's pace, the rank would
/// finish earlier by cost(). Its peers are the ranks that hold the same stages or, if no two ranks
/// do, all other ranks.
struct Straggler {
  int rank = -1;
  Picoseconds compute = 0;  ///< of the rank, including the optimizer
  Picoseconds usual = 0;    ///< the median of its peers; of an even number, the lower one
  Picoseconds slowest = 0;  ///< the most of its peers
  std::size_t peers = 0;
  int stage = -1;  ///< of the rank, if its peers hold other stages: it is then a slow stage

  Picoseconds cost() const { return compute - slowest; }
  double ratio() const { return static_cast<double>(compute) / static_cast<double>(usual); }
};
/// A rank is named only if it costs at least this share of the step.
constexpr double least_cost = 0.02;

/// Returns the straggler of a step, or nothing if no rank computes for clearly longer than its
/// peers. `stages` are the stages that each rank of the account holds.
std::optional<Straggler> straggler_of(const StepAccount& account,
                                      const std::vector<std::set<int>>& stages);
std::optional<Straggler> straggler_of(const Timeline& timeline, const StepAccount& account);

/// Names it: "straggler: rank 13" or, in a pipeline, "slow stage: rank 2".
std::string straggler_name(const Straggler& straggler);
/// Returns the change of a Scenario that gives the rank its peers' pace.
std::string change_to_peers_pace(const Straggler& straggler);
/// Says how long the step would take with this change: "Without this straggler, the step would take
/// 129 µs (18 µs less)."
std::string cost_words(const Straggler& straggler, Picoseconds recorded, Picoseconds changed);
/// Says why: "rank 13 computes for 3.20 ms in this step, 1.07 ms longer than any of its 7 peers".
std::string straggler_words(const Straggler& straggler);

/// The rank that the others waited for longest, and for how long in all.
struct Awaited {
  int rank = -1;
  Picoseconds time = 0;
};
/// Returns the largest of these waits, by the rank that was waited for; nothing if there are none.
std::optional<Awaited> longest_awaited(const std::map<int, Picoseconds>& waited);
/// "The others waited longest for rank 7: 31.2 ms in all."
std::string awaited_words(const Awaited& awaited);

}  // namespace lockstep::viz
