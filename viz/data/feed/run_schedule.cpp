#include "viz/data/feed/run_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "lessons/schedules/registry.h"
#include "viz/data/step/lab.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {
namespace {

/// Returns whether two schedules have the same actions in the same order; a trace does not show
/// which of them are joined.
bool has_actions(Schedule known, const Schedule& observed) {
  for (auto& rank : known.actions)
    for (Action& action : rank) action.with_next = false;
  return known.actions == observed.actions;
}

}  // namespace

void name_schedule(Timeline& timeline) {
  if (timeline.steps().empty()) return;
  const int step = timeline.steps().front().step;
  // Replicas run the same stages, so checking one of them suffices.
  std::map<int, int> rank_by_first_stage;
  for (const auto& rank : timeline.ranks())
    if (const std::set<int> stages = stages_of(timeline, *rank, step); !stages.empty())
      rank_by_first_stage.try_emplace(*stages.begin(), rank->rank);
  if (rank_by_first_stage.size() < 2) return;
  std::vector<int> replica;
  for (const auto& [stage, rank] : rank_by_first_stage) replica.push_back(rank);
  ExecutedStep executed = executed_step(timeline, step, replica);
  std::set<int> stages, microbatches;
  for (const auto& rank : executed.actions)
    for (const TimelineSpan& action : rank) {
      stages.insert(action.stage);
      microbatches.insert(action.microbatch);
    }
  const int ranks = executed.schedule.ranks;
  const auto count = static_cast<int>(stages.size());
  if (ranks < 2 || count % ranks != 0 ||
      count * static_cast<int>(microbatches.size()) > most_lab_actions)
    return;
  // The schedule's ranks are in the order of their first stages.
  std::ranges::sort(executed.schedule.actions, {}, [](const std::vector<Action>& actions) {
    return std::ranges::min(actions, {}, &Action::stage).stage;
  });
  const PipelineSize size{ranks, count / ranks, static_cast<int>(microbatches.size())};
  std::vector<std::string>& notes = timeline.run().notes;
  for (const KnownSchedule& known : known_schedules()) {
    if (known.searched || !refusal(known, size).empty()) continue;
    if (!has_actions(known.generate(size), executed.schedule)) continue;
    notes.push_back(
        fmt::format("The order of the actions is that of {} with {} stages and {} "
                    "microbatches.",
                    known.name, size.stages(), size.microbatches));
    timeline.predict({.first_step = step,
                      .formula = known.formula(size),
                      .schedule = std::string{known.name},
                      .stages = size.stages(),
                      .microbatches = size.microbatches});
    return;
  }
  notes.push_back("The order of the actions is that of no schedule that the lessons generate.");
}

}  // namespace lockstep::viz
