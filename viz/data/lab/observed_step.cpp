#include "viz/data/lab/observed_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "viz/data/step/words.h"
#include "viz/read/timeline/step_graph.h"

namespace lockstep::viz {
namespace {

/// Identifies a message within a step: its sender and receiver, the stage that produced it, its
/// microbatch and kind.
using MessageKey = std::tuple<int, int, int, int, bool>;

MessageKey key_of(const TimedMessage& message) {
  return {message.from_rank, message.to_rank, message.stage, message.microbatch, message.forward};
}

std::string words_of(const TimedMessage& message) {
  return fmt::format("the {} of microbatch {} from stage {}, rank {} to rank {}",
                     message.forward ? "activations" : "gradients", message.microbatch,
                     message.stage, message.from_rank, message.to_rank);
}

}  // namespace

ObservedStep observed_step(const Timeline& timeline, int step, const Schedule& schedule,
                           const Simulation& simulation) {
  ObservedStep observed;
  const StepGraph graph{timeline, step};
  std::vector<std::vector<TimelineSpan>> spans;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const RankTimeline* row = timeline.find_rank(rank);
    if (!row) throw RunError(fmt::format("the trace has no rank {}", rank));
    spans.push_back(actions_of(timeline, *row, step));
  }
  const Picoseconds origin = graph.empty() ? 0 : graph.window().start;
  for (std::size_t rank = 0; rank < spans.size(); ++rank) {
    const std::vector<Action>& row = schedule.actions[rank];
    std::vector<TimedAction>& timed = observed.actions.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool there = i < spans[rank].size() && spans[rank][i].stage == row[i].stage &&
                         spans[rank][i].microbatch == row[i].microbatch &&
                         spans[rank][i].category == category(row[i].op);
      if (!there)
        throw RunError(fmt::format("rank {} did not run {} as action {} of the step", rank,
                                   to_string(row[i]), i));
      timed.push_back({spans[rank][i].start - origin, spans[rank][i].end - origin});
    }
    if (spans[rank].size() > row.size())
      throw RunError(fmt::format("rank {} ran {} actions, and the schedule has {}", rank,
                                 spans[rank].size(), row.size()));
  }
  std::map<MessageKey, TimedMessage> found;
  for (const auto& [id, message] : graph.messages())
    if (message.sent && message.received)
      found[{message.from, message.to, message.sent->stage, message.sent->microbatch,
             message.forward()}] = {.start = message.sent->start - origin,
                                    .sent = message.sent->end - origin,
                                    .arrived = message.received->end - origin};
  for (TimedMessage message : simulation.messages) {
    const auto seen = found.find(key_of(message));
    if (seen == found.end()) throw RunError(fmt::format("the trace lacks {}", words_of(message)));
    message.start = seen->second.start;
    message.sent = seen->second.sent;
    message.arrived = seen->second.arrived;
    observed.messages.push_back(message);
  }
  return observed;
}

StepDifference difference_of(const Schedule& schedule, const Simulation& simulation,
                             const ObservedStep& observed) {
  StepDifference difference;
  const auto compare = [&](Picoseconds a, Picoseconds b, const auto& words) {
    if (std::abs(a - b) <= difference.largest) return;
    difference.largest = std::abs(a - b);
    difference.where = words();
  };
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const TimedAction &a = simulation.actions[rank][i], &b = observed.actions[rank][i];
      const auto words = [&] {
        return fmt::format("{} on rank {}", to_string(schedule.actions[rank][i]), rank);
      };
      compare(a.start, b.start, words);
      compare(a.end, b.end, words);
      ++difference.actions;
    }
  for (std::size_t i = 0; i < simulation.messages.size(); ++i) {
    const TimedMessage &a = simulation.messages[i], &b = observed.messages[i];
    const auto words = [&] { return words_of(a); };
    compare(a.start, b.start, words);
    compare(a.sent, b.sent, words);
    compare(a.arrived, b.arrived, words);
    ++difference.messages;
  }
  return difference;
}

std::string difference_words(const StepDifference& difference) {
  std::string words =
      fmt::format("largest difference {} over {} actions and {} messages",
                  difference.largest == 0 ? "0 ps" : duration_words(difference.largest),
                  difference.actions, difference.messages);
  if (!difference.where.empty()) words += ", in " + difference.where;
  return words;
}

}  // namespace lockstep::viz
