#include "viz/data/layout/ghost.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "viz/data/layout/explanations.h"
#include "viz/data/step/lab.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

/// "1.00 ms later", "2.00 ms earlier".
std::string difference_words(Picoseconds difference, const Scale& scale, const char* more,
                             const char* less) {
  return fmt::format("{} {}", scale(std::abs(static_cast<double>(difference))),
                     difference > 0 ? more : less);
}

}  // namespace

const GhostAction* Ghost::find(std::size_t rank, const TimelineSpan& span) const {
  if (rank >= ranks.size()) return nullptr;
  const auto found = std::ranges::find_if(ranks[rank], [&](const GhostAction& action) {
    return action.stage == span.stage && action.microbatch == span.microbatch &&
           action.category == span.category;
  });
  return found != ranks[rank].end() ? &*found : nullptr;
}

std::optional<Ghost> ghost_of(const Timeline& timeline, int step) {
  const StepWindow* window = timeline.find_step(step);
  const Prediction& prediction = timeline.prediction(step);
  const KnownSchedule* known = find_schedule(prediction.schedule);
  if (!window || !known || !is_small(timeline, *window)) return {};
  const LabQuestion question = question_from(timeline, step);
  if (question.measured.empty() || question.schedule != known || !limit_words(question).empty())
    return {};
  const LabAnswer answered = answer(question);

  Picoseconds begin = std::numeric_limits<Picoseconds>::max();
  for (const auto& rank : timeline.ranks()) {
    const Intervals busy = pipeline_actions(timeline, *rank, step);
    if (!busy.empty()) begin = std::min(begin, busy.front().start);
  }
  Ghost ghost{.window = {begin, begin + answered.simulation.makespan}};
  for (const auto& rank : timeline.ranks()) {
    const std::set<int> stages = stages_of(timeline, *rank, step);
    auto& mine = ghost.ranks.emplace_back();
    for (std::size_t r = 0; r < answered.schedule.actions.size(); ++r) {
      for (std::size_t i = 0; i < answered.schedule.actions[r].size(); ++i) {
        const Action& action = answered.schedule.actions[r][i];
        const TimedAction& time = answered.simulation.actions[r][i];
        if (stages.contains(action.stage))
          mine.push_back({action.stage,
                          action.microbatch,
                          category(action.op),
                          {begin + time.start, begin + time.end}});
      }
    }
    std::ranges::stable_sort(mine, {}, [](const GhostAction& each) { return each.time.start; });
  }
  return ghost;
}

const Ghost* Ghosts::find(const Timeline& timeline, const StepWindow& step) {
  if (!timeline.step_complete(step)) return nullptr;
  const auto [at, fresh] = steps_.try_emplace(step.step);
  if (fresh) at->second = ghost_of(timeline, step.step);
  return at->second ? &*at->second : nullptr;
}

std::string ghost_words(const GhostAction& predicted, const TimelineSpan& span) {
  const Picoseconds start = span.start - predicted.time.start;
  const Picoseconds longer = span.duration() - (predicted.time.end - predicted.time.start);
  if (start == 0 && longer == 0) return "exactly as predicted";
  const Scale scale = Scale::durations(
      std::max(std::abs(static_cast<double>(start)), std::abs(static_cast<double>(longer))));
  std::string words;
  if (start != 0) words = "started " + difference_words(start, scale, "later", "earlier");
  if (longer != 0)
    words +=
        (words.empty() ? "took " : ", took ") + difference_words(longer, scale, "longer", "less");
  return words + " than predicted";
}

}  // namespace lockstep::viz
