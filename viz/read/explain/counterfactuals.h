#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/replay/scenario.h"
#include "core/run/results/run_results.h"
#include "core/time/time.h"
#include "viz/read/explain/sentence.h"
#include "viz/read/explain/slow.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

// Predicts how long a step would take if one thing were different. On the modelled clock, each
// answer is a replay of the recorded operations with that one change (core/replay), so running the
// program again with the change takes exactly as long. On the wall clock there is no replay, only
// an estimate from the observed times, which is labelled as such.

/// One change, and the step's length with it.
struct Counterfactual {
  Claim claim;
  std::string what;  ///< "tp communication free"
  /// The changes in the form that Scenario::change() accepts; empty for another run or an estimate.
  std::vector<std::string> changes{};
  Picoseconds step = 0;
  /// For an estimate: the smallest and the largest saving over the phase's steps.
  bool estimated = false;
  Picoseconds least = 0, most = 0;
  /// The claim's subject, such as its rank, and the values that differ; times are in seconds.
  std::vector<std::pair<std::string, double>> values{};
};

/// The counterfactuals that shorten a step, in ascending order of the resulting length.
struct Counterfactuals {
  int step = -1;
  Picoseconds length = 0;  ///< as it was
  std::vector<Counterfactual> all{};
  /// The number of changes that were not tried, because only the slowest ranks and stages are tried
  /// one by one, and replays of a large run take long.
  std::size_t left_out = 0;
  std::vector<std::string> choices{};  ///< RunOperations::choices, which the replays keep

  Picoseconds saving(const Counterfactual& each) const { return length - each.step; }
  /// Removes the changes that do not shorten the step, and sorts the others.
  void keep_what_helps();
  std::vector<Sentence> sentences() const;
};

/// Replays a step of a recorded run under `base`, and with one more change at a time:
///
///   - free messages in one group, or on all links within or between nodes; no latency;
///   - a rank that computes for longer than the median of its peers (the ranks that hold the same
///     stages) at the median's pace, all such ranks, and likewise stages;
///   - each of `alternatives`.
///
/// Of single ranks and stages, only the slowest `most_slow_tried` are tried.
Counterfactuals what_would_help(const RunOperations& run, const Scenario& base, int step,
                                const std::vector<Alternative>& alternatives = {});
constexpr std::size_t most_slow_tried = 8;

/// Returns the change of one slow rank.
Counterfactual rank_at_pace(const Slow& slow);

/// Estimates how long the last of `steps` would take without the communication of one axis, or with
/// one rank at the median pace of its peers, if this rank is the slowest of them in each of the
/// steps. The saving is the median of the steps' savings. The estimate ignores how the waits of one
/// rank delay others.
Counterfactuals estimate_what_would_help(const Timeline& timeline, const std::vector<int>& steps);

}  // namespace lockstep
