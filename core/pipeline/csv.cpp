#include "core/pipeline/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pipeline/csv_cells.h"

namespace lockstep {

namespace {

/// Counts the stages and microbatches of `schedule` and finds the rank of each
/// stage.
void find_placement(Schedule& schedule) {
  int last_stage = -1;
  int last_microbatch = -1;
  for (const auto& row : schedule.actions)
    for (const Action& action : row) {
      last_stage = std::max(last_stage, action.stage);
      last_microbatch = std::max(last_microbatch, action.microbatch);
    }
  // Each stage has an action for each microbatch, so a stray large number cannot cause a huge
  // allocation.
  const std::size_t count = schedule.action_count();
  for (const auto& [what, last] :
       {std::pair{"stage", last_stage}, std::pair{"microbatch", last_microbatch}})
    if (static_cast<std::size_t>(last) >= count)
      throw ScheduleError(
          fmt::format("{}: has a {} {}, but only {} actions", schedule.name, what, last, count));
  if ((static_cast<std::size_t>(last_stage) + 1) * (static_cast<std::size_t>(last_microbatch) + 1) >
      count)
    throw ScheduleError(fmt::format("{}: has {} stages and {} microbatches, but only {} actions",
                                    schedule.name, last_stage + 1, last_microbatch + 1, count));
  schedule.stages = last_stage + 1;
  schedule.microbatches = last_microbatch + 1;
  schedule.rank_of_stage.assign(static_cast<std::size_t>(schedule.stages), -1);
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      int& home = schedule.rank_of_stage[static_cast<std::size_t>(action.stage)];
      if (home < 0) home = rank;
    }
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] < 0)
      throw ScheduleError(fmt::format("{}: stages go up to {}, but no row has stage {}",
                                      schedule.name, last_stage, stage));
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string csv;
  for (const auto& row : schedule.actions) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) csv += ',';
      if (row[i].with_next && i + 1 < row.size()) {
        csv += fmt::format("({};{})OVERLAP_F_B", to_string(row[i]), to_string(row[i + 1]));
        ++i;
      } else {
        csv += to_string(row[i]);
      }
    }
    csv += '\n';
  }
  return csv;
}

Schedule schedule_from_csv(const std::string& csv, std::string name) {
  Schedule schedule;
  schedule.name = std::move(name);
  for (const std::vector<CsvAction>& row : csv_rows(csv, schedule.name)) {
    std::vector<Action>& actions = schedule.actions.emplace_back();
    actions.reserve(row.size());
    for (const CsvAction& each : row)
      if (each.kind == CellKind::compute) actions.push_back(each.action);
  }
  while (!schedule.actions.empty() && schedule.actions.back().empty()) schedule.actions.pop_back();
  if (schedule.actions.empty())
    throw ScheduleError(schedule.name +
                        ": has no actions; it needs a row per rank, such as 0F0,0B0");
  schedule.ranks = static_cast<int>(schedule.actions.size());
  find_placement(schedule);
  return schedule;
}

}  // namespace lockstep
