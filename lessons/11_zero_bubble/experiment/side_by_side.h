#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/text/text_table.h"
#include "lessons/schedules/prediction.h"
#include "lessons/schedules/schedule_flags.h"

namespace lockstep {

/// One row of the table: a schedule on the plan's ranks, simulated with the plan's costs.
inline std::vector<std::string> row_of(const Plan& plan, const Schedule& schedule) {
  Plan placed = plan;
  placed.rank_of_stage = schedule.rank_of_stage;
  const int m = schedule.microbatches;
  const Simulation simulation = simulate(schedule, pipeline_times(placed, m));
  Picoseconds longest = 0;  // the longest window of a rank
  for (const std::vector<TimedAction>& row : simulation.actions)
    longest = std::max(longest, row.back().end - row.front().start);
  std::int64_t bytes = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const Place place =
        placed.place(placed.mesh.group(0, Axis::pp)[static_cast<std::size_t>(rank)]);
    const DryFigures figures = dry_run_schedule(placed, place, schedule);
    bytes = std::max(bytes, figures.peak.of(MemoryCategory::activations));
  }
  return {schedule.name,
          std::to_string(schedule.stages / schedule.ranks),
          ms(simulation.makespan) + " ms",
          percent(simulation.bubble),
          ms(longest) + " ms",
          percent(simulation.internal_bubble),
          human_bytes(bytes)};
}

/// Prints all schedules that the run's ranks, layers and microbatches allow, as a run with these
/// flags would follow them; those that do not accept the chunks of --chunks have the fewest that
/// they do. On the wall clock, there are no costs to simulate with. With --time, every stage takes
/// the same time, so only schedules with the run's number of stages do the same work; with --split,
/// only these have stages of the given sizes.
inline void print_side_by_side(const Plan& plan, const ScheduleFlags& flags) {
  if (!plan.modelled) return;
  TableRows rows{{"simulated", "chunks", "a step takes", "bubble", "longest window",
                  "internal bubble", "peak activations"}};
  for (const KnownSchedule& known : known_schedules()) {
    PipelineSize size = flags.size_of(known, plan);
    if (!refusal(known, size).empty()) size.chunks = known.least_chunks;
    if (!refusal(known, size).empty() || size.stages() > plan.model().layers) continue;
    const bool same_stages = plan.modelled->times.any() || !plan.split.empty();
    if (same_stages && size.stages() != plan.stages()) continue;
    const Schedule schedule = flags.generated(known, plan, size);
    if (untimed_halves(plan, schedule).empty()) rows.push_back(row_of(plan, schedule));
  }
  fmt::print("\n{}", table(rows));
  fmt::print(
      "  longest window: from a rank's first action to its last, the time between two steps if no "
      "rank waits for the others\n"
      "  between them; internal bubble: the idle share of this rank's window. Peak activations: of "
      "the rank that needs most.\n");
}

}  // namespace lockstep
