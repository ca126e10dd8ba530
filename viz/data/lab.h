#pragma once

#include <vector>

#include "core/pipeline/simulator.h"
#include "core/trace/timeline.h"

namespace lockstep::viz {

/// The schedules of which the lab asks "what if".
enum class LabSchedule : std::uint8_t { gpipe, one_f_one_b };

/// What is asked: a schedule, its size, and what an action costs.
struct LabQuestion {
  LabSchedule schedule = LabSchedule::one_f_one_b;
  int stages = 4;
  int microbatches = 8;
  Picoseconds forward = 1'000'000'000;   ///< of one stage and microbatch, the mean
  Picoseconds backward = 2'000'000'000;  ///< of both halves
  std::vector<StageTimes> measured{};    ///< of each stage, where a run has told
  std::int64_t boundary_bytes = 0;       ///< that cross between stages
  Cluster cluster{};
};

/// What the simulator says.
struct LabAnswer {
  Schedule schedule;
  Simulation simulation;
  double formula = 0;  ///< (p - 1) / (m + p - 1)
  int most_live = 0;   ///< microbatches that rank 0 remembers at most
};

/// A step's own numbers as a question: its stages, microbatches, schedule, each stage's mean times,
/// message size and cluster; the textbook's (backward = 2 forward) where it has none.
LabQuestion question_from(const Timeline& timeline, int step);

LabAnswer answer(const LabQuestion& question);

}  // namespace lockstep::viz
