#pragma once

#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "core/trace/timeline.h"

namespace lockstep::viz {

/// The schedules that the lab can simulate.
enum class LabSchedule : std::uint8_t { gpipe, one_f_one_b };

/// The input of a what-if simulation: a schedule, its size and the cost of its actions.
struct LabQuestion {
  LabSchedule schedule = LabSchedule::one_f_one_b;
  int stages = 4;
  int microbatches = 8;
  Picoseconds forward = 1'000'000'000;   ///< mean per stage and microbatch
  Picoseconds backward = 2'000'000'000;  ///< mean, both halves together
  std::vector<StageTimes> measured{};    ///< means per stage, if taken from a run
  std::int64_t boundary_bytes = 0;       ///< bytes sent across each stage boundary per microbatch
  Cluster cluster{};
  std::string limits{};  ///< how this differs from the run, which is too large; "" if it does not
};

/// The largest product of microbatches and stages that the lab simulates and draws within a frame.
constexpr int most_lab_actions = 4096;

/// The simulated result.
struct LabAnswer {
  Schedule schedule;
  Simulation simulation;
  double formula = 0;  ///< (p - 1) / (m + p - 1)
  int most_live = 0;   ///< peak number of live microbatches on rank 0
};

/// Builds a question from a step of the timeline: its stages, microbatches, schedule, mean times
/// per stage, message size and cluster. Uses textbook values (backward = 2 forward) if the step has
/// none, and fewer stages or microbatches (see `limits`) if the step has too many. Opens no file:
/// the cluster is described in the trace, or is a preset.
LabQuestion question_from(const Timeline& timeline, int step);

LabAnswer answer(const LabQuestion& question);

}  // namespace lockstep::viz
