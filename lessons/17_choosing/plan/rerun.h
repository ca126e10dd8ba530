#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lessons/17_choosing/plan/request.h"

namespace lockstep {

/// The flags of a run of lesson 17 that trains the plan for one step on the meta device, without
/// the cluster.
std::string lesson_flags(const PlanRequest& request, const Configuration& configuration);

/// The flags of a run of lesson 17 that uses the same techniques with two ranks along each axis, on
/// this machine's CPU.
std::string toy_flags(const TrainingTask& task, const Configuration& configuration);

/// The results of a run of lesson 17 on the meta device.
struct MetaRun {
  double step_seconds = 0;
  std::int64_t peak = 0;  ///< bytes, on the rank that holds most
};

/// Runs lesson 17 with all its ranks. Throws RunError if the run fails. If Ctrl-C ends the run,
/// this program ends, too.
MetaRun run_on_meta(const PlanRequest& request, const Configuration& configuration);
/// The largest number of ranks in a re-run, in which each rank is a thread.
constexpr int most_rerun_ranks = 2048;

}  // namespace lockstep
