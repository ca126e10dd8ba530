#include "core/pipeline/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "core/pipeline/validate.h"
#include "core/pipeline/walk.h"

namespace lockstep {

Picoseconds StageTimes::of(Op op) const {
  switch (op) {
    case Op::forward:
      return forward;
    case Op::backward:
      return backward;
    case Op::backward_input:
      return backward_input;
    case Op::backward_weight:
      return backward_weight;
  }
  return 0;  // unreachable: the switch covers every Op
}

namespace {

/// The transfer of a stage's result to the stage that uses it.
struct Hop {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  int to_stage = -1;              ///< -1: no stage uses it
  std::size_t connection = none;  ///< none: same rank, nothing is sent
  Picoseconds latency = 0;
  Picoseconds transfer = 0;
};

/// The connections between ranks, and the times at which the lanes at their two ends become free.
class Connections {
 public:
  Connections(const Schedule& schedule, const PipelineTimes& times)
      : cluster_(times.cluster), hops_(static_cast<std::size_t>(schedule.stages)) {
    std::map<std::array<int, 3>, std::size_t> numbers;  // by (sender, receiver, kind)
    for (int stage = 0; stage < schedule.stages; ++stage)
      for (int kind = 0; kind < 2; ++kind) {
        const int user = kind == 0 ? stage + 1 : stage - 1;
        if (user < 0 || user == schedule.stages) continue;
        Hop& hop = hops_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)];
        hop.to_stage = user;
        const int from = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
        const int to = schedule.rank_of_stage[static_cast<std::size_t>(user)];
        if (from == to) continue;
        hop.connection = numbers.try_emplace({from, to, kind}, numbers.size()).first->second;
        const auto world = [&](int rank) {
          return times.world_ranks.empty() ? rank
                                           : times.world_ranks.at(static_cast<std::size_t>(rank));
        };
        hop.latency = times.cluster.latency(world(from), world(to), times.boundary_bytes);
        hop.transfer = times.cluster.transfer(world(from), world(to), times.boundary_bytes);
      }
    free_.resize(numbers.size());
  }

  const Hop& hop(const Action& action) const {
    return hops_[static_cast<std::size_t>(action.stage)][action.op == Op::forward ? 0 : 1];
  }

  struct Passage {
    Picoseconds start = 0;
    Picoseconds sent = 0;
    Picoseconds arrived = 0;
  };
  /// Sends data that becomes available at time `ready`. Call this in the sender's program order.
  Passage send(const Hop& hop, Picoseconds ready) {
    Ends& free = free_[hop.connection];
    const Picoseconds start = std::max(ready, free.sender);
    const Picoseconds sent = cluster_.after(start, hop.transfer);
    free.sender = sent;
    free.receiver =
        std::max(cluster_.after(sent, hop.latency), cluster_.after(free.receiver, hop.transfer));
    return {start, sent, free.receiver};
  }
  void reset() { std::fill(free_.begin(), free_.end(), Ends{}); }

 private:
  struct Ends {
    Picoseconds sender = 0;
    Picoseconds receiver = 0;
  };
  const Cluster& cluster_;
  std::vector<std::array<Hop, 2>> hops_;  // (stages), for activations and gradients
  std::vector<Ends> free_;
};

void check_times(const Schedule& schedule, const PipelineTimes& times) {
  if (times.stages.size() != static_cast<std::size_t>(schedule.stages))
    throw ScheduleError(fmt::format("{}: has {} stages, but times for {}", schedule.name,
                                    schedule.stages, times.stages.size()));
  for (std::size_t rank = 0; !times.durations.empty() && rank < schedule.actions.size(); ++rank)
    if (times.durations.size() != schedule.actions.size() ||
        times.durations[rank].size() != schedule.actions[rank].size())
      throw ScheduleError(
          fmt::format("{}: durations are not parallel to the actions", schedule.name));
  if (times.boundary_bytes < 0)
    throw ScheduleError(fmt::format("{}: boundary_bytes is {}; it may not be negative",
                                    schedule.name, times.boundary_bytes));
  for (std::size_t stage = 0; stage < times.stages.size(); ++stage)
    for (Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight})
      if (times.stages[stage].of(op) < 0)
        throw ScheduleError(fmt::format("{}: {} of stage {} takes {} ps; no time may be negative",
                                        schedule.name, letter(op), stage,
                                        times.stages[stage].of(op)));
}

/// Returns all messages of a simulated schedule. Replays each sender's lanes in program order.
std::vector<TimedMessage> messages_of(const Schedule& schedule, const Simulation& simulation,
                                      Connections& connections) {
  connections.reset();
  std::vector<TimedMessage> messages;
  messages.reserve(schedule.action_count());
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      if (action.op == Op::backward_weight) continue;
      const Hop& hop = connections.hop(action);
      if (hop.to_stage < 0 || hop.connection == Hop::none) continue;
      const std::size_t ready = action.with_next ? i + 1 : i;
      const Connections::Passage passage =
          connections.send(hop, simulation.actions[rank][ready].end);
      messages.push_back({.from_rank = static_cast<int>(rank),
                          .to_rank = schedule.rank_of_stage[static_cast<std::size_t>(hop.to_stage)],
                          .stage = action.stage,
                          .microbatch = action.microbatch,
                          .forward = action.op == Op::forward,
                          .start = passage.start,
                          .sent = passage.sent,
                          .arrived = passage.arrived});
    }
  return messages;
}

/// Computes the makespan and both bubbles. A valid schedule starts at time 0 with a forward on the
/// first stage.
void measure(Simulation& simulation) {
  Picoseconds longest = 0;  // the longest window of any rank
  std::vector<Picoseconds> busy;
  for (const std::vector<TimedAction>& row : simulation.actions) {
    Picoseconds& sum = busy.emplace_back(0);
    if (row.empty()) continue;
    for (const TimedAction& action : row) sum += action.end - action.start;
    simulation.makespan = std::max(simulation.makespan, row.back().end);
    const Picoseconds window = row.back().end - row.front().start;
    if (window <= longest) continue;
    longest = window;
    simulation.internal_bubble = static_cast<double>(window - sum) / static_cast<double>(window);
  }
  if (simulation.makespan == 0) return;
  double idle = 0;
  for (Picoseconds sum : busy) idle += static_cast<double>(simulation.makespan - sum);
  simulation.bubble =
      idle / (static_cast<double>(simulation.makespan) * static_cast<double>(busy.size()));
}

/// Simulates a schedule, or the beginning of one, that has been checked except for deadlock.
Simulation simulate_checked(const Schedule& schedule, const PipelineTimes& times,
                            bool record_messages) {
  check_times(schedule, times);
  Connections connections{schedule, times};
  Simulation simulation;
  simulation.actions.resize(schedule.actions.size());
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
    simulation.actions[rank].resize(schedule.actions[rank].size());

  // Arrival times of inputs: activations for F, gradients for B and I.
  const auto microbatches = static_cast<std::size_t>(schedule.microbatches);
  const std::size_t cells = static_cast<std::size_t>(schedule.stages) * microbatches;
  std::array<std::vector<Picoseconds>, 2> arrivals{std::vector<Picoseconds>(cells),
                                                   std::vector<Picoseconds>(cells)};
  std::vector<Picoseconds> rank_free(schedule.actions.size());

  const auto arrival_at = [&](const Action& action, int stage) -> Picoseconds& {
    return arrivals[action.op == Op::forward ? 0 : 1]
                   [static_cast<std::size_t>(stage) * microbatches +
                    static_cast<std::size_t>(action.microbatch)];
  };
  const auto arrival = [&](const Action& action) { return arrival_at(action, action.stage); };
  // Passes the result on to the stage that uses it, if there is one.
  const auto pass_on = [&](const Action& action, Picoseconds ready) {
    const Hop& hop = connections.hop(action);
    if (hop.to_stage < 0) return;
    arrival_at(action, hop.to_stage) =
        hop.connection == Hop::none ? ready : connections.send(hop, ready).arrived;
  };

  walk(schedule, [&](std::size_t rank, const Action& action, std::size_t position) {
    const Picoseconds time =
        times.durations.empty() ? times.stages[static_cast<std::size_t>(action.stage)].of(action.op)
                                : times.durations[rank][position];
    TimedAction& timed = simulation.actions[rank][position];
    timed.start = rank_free[rank];
    if (action.op == Op::backward_weight) {
      timed.end = rank_free[rank] = times.cluster.after(timed.start, time);
      return;
    }
    timed.start = std::max(timed.start, arrival(action));
    if (action.with_next)
      timed.start = std::max(timed.start, arrival(schedule.actions[rank][position + 1]));
    timed.end = rank_free[rank] = times.cluster.after(timed.start, time);
    if (action.with_next) return;  // the result is sent when the backward has ended
    if (position > 0 && schedule.actions[rank][position - 1].with_next)
      pass_on(schedule.actions[rank][position - 1], timed.end);
    pass_on(action, timed.end);
  });

  measure(simulation);
  if (record_messages) simulation.messages = messages_of(schedule, simulation, connections);
  return simulation;
}

}  // namespace

Simulation simulate(const Schedule& schedule, const PipelineTimes& times, bool record_messages) {
  check_actions(schedule);
  return simulate_checked(schedule, times, record_messages);
}

Simulation simulate_beginning(const Schedule& beginning, const PipelineTimes& times,
                              bool record_messages) {
  check_beginning(beginning);
  return simulate_checked(beginning, times, record_messages);
}

}  // namespace lockstep
