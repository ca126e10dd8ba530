#include "viz/data/feed/run_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "lessons/schedules/registry.h"
#include "viz/data/step/lab.h"
#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

/// Stage, kind and microbatch.
using Executed = std::tuple<int, Category, int>;

/// Returns a rank's actions in a step, in order.
std::vector<Executed> executed(const Timeline& timeline, const RankTimeline& rank,
                               const StepWindow& step) {
  std::vector<TimelineSpan> spans;
  if (const Lane* compute = rank.compute())
    visit_band(*compute, Band::action, {step.start, step.end}, [&](const TimelineSpan& span) {
      if (span.step == step.step && span.stage >= 0 && is_pipeline_action(timeline, span))
        spans.push_back(span);
    });
  std::ranges::stable_sort(spans, {}, &TimelineSpan::start);
  std::vector<Executed> all;
  for (const TimelineSpan& span : spans)
    all.emplace_back(span.stage, span.category, span.microbatch);
  return all;
}

/// Returns whether a schedule has exactly these actions; `ranks` has the actions by the ranks'
/// lowest stages.
bool has_actions(const Schedule& schedule, const std::vector<std::vector<Executed>>& ranks) {
  if (schedule.actions.size() != ranks.size()) return false;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<Action>& actions = schedule.actions[rank];
    if (!std::ranges::equal(actions, ranks[rank], [](const Action& a, const Executed& b) {
          return Executed{a.stage, category(a.op), a.microbatch} == b;
        }))
      return false;
  }
  return true;
}

}  // namespace

void name_schedule(Timeline& timeline) {
  if (timeline.steps().empty()) return;
  const StepWindow& step = timeline.steps().front();
  // Replicas run the same stages, so checking one of them suffices.
  std::map<int, std::vector<Executed>> by_first_stage;
  std::set<int> stages, microbatches;
  for (const auto& rank : timeline.ranks()) {
    std::vector<Executed> actions = executed(timeline, *rank, step);
    if (actions.empty()) continue;
    for (const auto& [stage, kind, microbatch] : actions) {
      stages.insert(stage);
      microbatches.insert(microbatch);
    }
    by_first_stage.try_emplace(std::get<0>(*std::ranges::min_element(actions)), std::move(actions));
  }
  const auto ranks = static_cast<int>(by_first_stage.size());
  const auto count = static_cast<int>(stages.size());
  if (ranks < 2 || count % ranks != 0 ||
      count * static_cast<int>(microbatches.size()) > most_lab_actions)
    return;
  std::vector<std::vector<Executed>> actions;
  for (auto& [first, all] : by_first_stage) actions.push_back(std::move(all));
  const PipelineSize size{ranks, count / ranks, static_cast<int>(microbatches.size())};
  std::vector<std::string>& notes = timeline.run().notes;
  for (const KnownSchedule& known : known_schedules()) {
    if (known.searched || !refusal(known, size).empty()) continue;
    if (!has_actions(known.generate(size), actions)) continue;
    notes.push_back(
        fmt::format("The order of the actions is that of {} with {} stages and {} "
                    "microbatches.",
                    known.name, size.stages(), size.microbatches));
    timeline.predict({.first_step = step.step,
                      .formula = known.formula(size),
                      .schedule = std::string{known.name},
                      .stages = size.stages(),
                      .microbatches = size.microbatches});
    return;
  }
  notes.push_back("The order of the actions is that of no schedule that the lessons generate.");
}

}  // namespace lockstep::viz
