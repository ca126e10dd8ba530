#include "viz/read/report/bubble_parts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/simulator.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

namespace {

/// The bubble if messages are free and every action takes its time in `durations`.
double simulated(const Schedule& schedule, std::vector<std::vector<Picoseconds>> durations) {
  PipelineTimes times;
  times.stages.resize(static_cast<std::size_t>(schedule.stages));
  times.durations = std::move(durations);
  return simulate(schedule, times).bubble;
}

BubbleParts take_apart(const ExecutedStep& ran, double formula, double observed) {
  std::map<std::pair<Category, int>, Picoseconds> fastest;
  std::vector<std::vector<Picoseconds>> durations, by_stage;
  for (const auto& rank : ran.actions)
    for (const TimelineSpan& action : rank) {
      auto& time = fastest.try_emplace({action.category, action.stage}, INT64_MAX).first->second;
      time = std::min(time, action.duration());
    }
  for (const auto& rank : ran.actions) {
    auto& own = durations.emplace_back();
    auto& stages = by_stage.emplace_back();
    for (const TimelineSpan& action : rank) {
      own.push_back(action.duration());
      stages.push_back(fastest.at({action.category, action.stage}));
    }
  }
  const double with_stages = simulated(ran.schedule, by_stage);
  const double with_actions = simulated(ran.schedule, durations);
  return {.formula = formula,
          .uneven = with_stages - formula,
          .actions = with_actions - with_stages,
          .messages = observed - with_actions};
}

}  // namespace

ObservedBubble observe_bubble(const Timeline& timeline, const Phase& phase,
                              const Predicted& predicted, const std::vector<int>& pipeline) {
  std::vector<std::pair<double, int>> shares;
  for (int step = phase.first_step; step < phase.first_step + phase.steps; ++step)
    if (const auto seen = bubble(timeline, step)) shares.emplace_back(seen->share(), step);
  if (shares.empty()) return {};
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());

  ObservedBubble observed{.share = middle->first,
                          .step = middle->second,
                          .window = bubble(timeline, middle->second)->window,
                          .parts = {}};
  if (!predicted.bubble) return observed;
  try {
    observed.parts = take_apart(executed_step(timeline, middle->second, pipeline),
                                *predicted.bubble, middle->first);
  } catch (const ScheduleError&) {
    // If actions are missing from the trace, there is no valid schedule.
  }
  return observed;
}

}  // namespace lockstep
