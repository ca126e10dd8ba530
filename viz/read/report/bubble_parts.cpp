#include "viz/read/report/bubble_parts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/simulator.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

namespace {

std::optional<Op> op_of(Category category) {
  for (const Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight})
    if (lockstep::category(op) == category) return op;
  return {};
}

/// One step as observed: each rank's actions, in order, with their durations.
struct Ran {
  Schedule schedule;
  std::vector<std::vector<Picoseconds>> durations;  ///< parallel to the schedule's actions
};

Ran read_step(const Timeline& timeline, int step, const std::vector<int>& pipeline) {
  Ran ran;
  for (const auto& rank : timeline.ranks()) {
    if (!pipeline.empty() && std::ranges::count(pipeline, rank->rank) == 0) continue;
    std::vector<const TimelineSpan*> spans;
    if (const Lane* lane = rank->compute())
      for (const SpanRow& row : lane->rows(Band::action))
        for (const TimelineSpan& span : row)
          if (span.step == step && is_pipeline_action(timeline, span)) spans.push_back(&span);
    std::sort(spans.begin(), spans.end(), [](auto a, auto b) { return a->start < b->start; });
    if (spans.empty()) continue;  // it takes no part
    auto& actions = ran.schedule.actions.emplace_back();
    auto& durations = ran.durations.emplace_back();
    for (const TimelineSpan* span : spans) {
      const auto op = op_of(span->category);
      if (!op) continue;
      actions.push_back({*op, span->stage, span->microbatch});
      durations.push_back(span->duration());
      ran.schedule.microbatches = std::max(ran.schedule.microbatches, span->microbatch + 1);
      ran.schedule.stages = std::max(ran.schedule.stages, span->stage + 1);
    }
  }
  ran.schedule.name = "observed";
  ran.schedule.ranks = static_cast<int>(ran.schedule.actions.size());
  ran.schedule.rank_of_stage.resize(static_cast<std::size_t>(ran.schedule.stages));
  for (std::size_t rank = 0; rank < ran.schedule.actions.size(); ++rank)
    for (const Action& action : ran.schedule.actions[rank])
      ran.schedule.rank_of_stage[static_cast<std::size_t>(action.stage)] = static_cast<int>(rank);
  return ran;
}

/// The bubble if messages are free and every action takes its time in `durations`.
double simulated(const Schedule& schedule, std::vector<std::vector<Picoseconds>> durations) {
  PipelineTimes times;
  times.stages.resize(static_cast<std::size_t>(schedule.stages));
  times.durations = std::move(durations);
  return simulate(schedule, times).bubble;
}

BubbleParts take_apart(const Ran& ran, double formula, double observed) {
  std::map<std::pair<Op, int>, Picoseconds> fastest;
  for (std::size_t rank = 0; rank < ran.durations.size(); ++rank)
    for (std::size_t i = 0; i < ran.durations[rank].size(); ++i) {
      const Action& action = ran.schedule.actions[rank][i];
      auto& time = fastest.try_emplace({action.op, action.stage}, INT64_MAX).first->second;
      time = std::min(time, ran.durations[rank][i]);
    }
  auto by_stage = ran.durations;
  for (std::size_t rank = 0; rank < by_stage.size(); ++rank)
    for (std::size_t i = 0; i < by_stage[rank].size(); ++i) {
      const Action& action = ran.schedule.actions[rank][i];
      by_stage[rank][i] = fastest.at({action.op, action.stage});
    }
  const double with_stages = simulated(ran.schedule, by_stage);
  const double with_actions = simulated(ran.schedule, ran.durations);
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
    observed.parts =
        take_apart(read_step(timeline, middle->second, pipeline), *predicted.bubble, middle->first);
  } catch (const ScheduleError&) {
    // If actions are missing from the trace, there is no valid schedule.
  }
  return observed;
}

}  // namespace lockstep
