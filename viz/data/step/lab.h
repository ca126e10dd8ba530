#pragma once

#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "lessons/schedules/registry.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// The input of a what-if simulation: a schedule, its size and the cost of its actions.
struct LabQuestion {
  const KnownSchedule* schedule = find_schedule("1F1B");
  int ranks = 4;
  int chunks = 1;  ///< stages per rank
  int microbatches = 8;
  Picoseconds forward = 1'000'000'000;   ///< mean per stage and microbatch
  Picoseconds backward = 2'000'000'000;  ///< mean, both halves together
  std::vector<StageTimes> measured{};    ///< a run's means per stage; its chunks may differ
  std::int64_t boundary_bytes = 0;       ///< bytes sent across each stage boundary per microbatch
  Cluster cluster{};
  bool too_long = false;  ///< whether the run's times are too long to simulate
  /// How many of the run's stages and microbatches are simulated; "" if all are. The second is also
  /// "" once the user has chosen a number of microbatches.
  std::string fewer_stages{}, fewer_microbatches{};

  PipelineSize size() const { return {ranks, chunks, microbatches}; }
};

/// The largest product of microbatches and stages that the lab simulates and draws within a frame.
constexpr int most_lab_actions = 4096;

/// The simulated result.
struct LabAnswer {
  Schedule schedule;
  Simulation simulation;
  std::optional<double> formula;  ///< the bubble for equal stages and free messages
  std::string words;              ///< the formula
  double most_live = 0;  ///< peak number of live microbatches on rank 0, in whole microbatches
};

/// Returns the schedules that the question's ranks can run, each with its number of chunks: the
/// question's number or, if the schedule does not support it, the smallest number that it supports.
std::vector<std::pair<const KnownSchedule*, int>> lab_schedules(const LabQuestion& question);

/// Builds a question from a step of the timeline: its stages, microbatches, schedule, mean times
/// per stage, message size and cluster. Uses textbook values (backward = 2 forward) if the step has
/// none. If the step has too many stages or microbatches, uses fewer, and says so. Opens no file:
/// the trace describes the cluster or names a preset.
LabQuestion question_from(const Timeline& timeline, int step);

/// Returns the last step that has ended on all ranks; -1 if there is none.
int last_complete_step(const Timeline& timeline);

LabAnswer answer(const LabQuestion& question);

/// Names a row of a schedule by the stages that it runs: "stage 2", "stages 2, 6".
std::string row_words(const Schedule& schedule, int row);

/// If the run is too large, says which part of it is simulated; otherwise "".
std::string limit_words(const LabQuestion& question);
/// Names the bubble: "bubble 27.3 %". If not all of the run is simulated, also names the size:
/// "bubble of 64 stages, 64 microbatches: 49.6 %".
std::string bubble_words(const LabQuestion& question, const LabAnswer& answer);
/// Says how long a step takes, and how many microbatches rank 0 holds. The unit is the rank's
/// activations for one microbatch; each of its chunks holds a part of them.
std::string verdict_words(const LabQuestion& question, const LabAnswer& answer);

}  // namespace lockstep::viz
