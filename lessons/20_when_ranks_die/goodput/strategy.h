#pragma once

#include "lessons/20_when_ranks_die/goodput/account.h"
#include "lessons/20_when_ranks_die/goodput/goodput.h"
#include "lessons/20_when_ranks_die/goodput/request.h"

namespace lockstep {

constexpr Strategy all_strategies[] = {Strategy::restart, Strategy::memory, Strategy::quorum,
                                       Strategy::spares};

/// The law of the job's failures on this many ranks.
FailureLaw law_for(const GoodputRequest& request, int ranks);

/// The textbook model that belongs to a strategy on this many ranks.
RestartModel model_for(const GoodputRequest& request, Strategy strategy, int ranks);

/// The steps between two checkpoints: those of --interval, or the best ones by the formula.
std::int64_t interval_for(const GoodputRequest& request, Strategy strategy, int ranks);

/// What the formula of a strategy predicts: Daly's, for restarts; with spares, the same for a step
/// instead of an interval; with a quorum, also times the share of replicas that train.
double predicted(const GoodputRequest& request, Strategy strategy, int ranks,
                 std::int64_t interval);

/// The result of a simulation.
struct Simulated {
  Account all;  ///< the sum over all runs
  double mean_seconds = 0, shortest = 0, longest = 0;
  std::int64_t runs = 0;
};

/// Simulates request.runs runs of request.steps steps, or one run that is long enough for
/// request.failures failures and as many intervals.
Simulated simulate(const GoodputRequest& request, Strategy strategy, int ranks,
                   std::int64_t interval);

}  // namespace lockstep
