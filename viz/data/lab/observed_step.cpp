#include "viz/data/lab/observed_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "viz/data/step/words.h"
#include "viz/read/timeline/analysis.h"

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

/// Calls visit(lane, span) for each span of the rank's step.
template <class Visit>
void visit_step(const RankTimeline& rank, int step, Visit visit) {
  for (const auto& lane : rank.lanes)
    for (const SpanRow& row : lane->rows(Band::action))
      for (const TimelineSpan& span : row)
        if (span.step == step) visit(*lane, span);
}

/// Returns the rank's actions of the step, in order of time.
std::vector<TimelineSpan> actions_of(const Timeline& timeline, const RankTimeline& rank, int step) {
  std::vector<TimelineSpan> spans;
  visit_step(rank, step, [&](const Lane& lane, const TimelineSpan& span) {
    if (lane.is_compute() && is_pipeline_action(timeline, span)) spans.push_back(span);
  });
  std::ranges::stable_sort(spans, {}, [](const TimelineSpan& span) {
    return std::pair{span.start, span.end};
  });
  return spans;
}

/// Adds the rank's sends and receives of the step.
void find_messages(const RankTimeline& rank, int step, Picoseconds origin,
                   std::map<MessageKey, TimedMessage>& found) {
  visit_step(rank, step, [&](const Lane& lane, const TimelineSpan& span) {
    if (lane.is_compute() || span.category != Category::communication || span.stage < 0) return;
    const bool forward = lane.name().find("activations") != std::string::npos;
    const bool sends = rank.sending_lanes.contains(lane.tid());
    // A send names the stage that produces the message, a receive the one that uses it.
    const int stage = sends ? span.stage : span.stage + (forward ? -1 : 1);
    const int from = sends ? rank.rank : span.peer, to = sends ? span.peer : rank.rank;
    TimedMessage& message = found[{from, to, stage, span.microbatch, forward}];
    if (sends) {
      message.start = span.start - origin;
      message.sent = span.end - origin;
    } else {
      message.arrived = span.end - origin;
    }
  });
}

}  // namespace

ObservedStep observed_step(const Timeline& timeline, int step, const Schedule& schedule,
                           const Simulation& simulation) {
  ObservedStep observed;
  Picoseconds origin = std::numeric_limits<Picoseconds>::max();
  std::vector<std::vector<TimelineSpan>> spans;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const RankTimeline* row = timeline.find_rank(rank);
    if (!row) throw RunError(fmt::format("the trace has no rank {}", rank));
    spans.push_back(actions_of(timeline, *row, step));
    if (!spans.back().empty()) origin = std::min(origin, spans.back().front().start);
  }
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
  for (const auto& rank : timeline.ranks()) find_messages(*rank, step, origin, found);
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
