#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/pipeline/simulator.h"

/// A second simulator, simple and slow, against which Lockstep's own is checked. It has no ready
/// sets and no event order: it sets all times to 0, and then repeatedly applies every rule of
/// modelled time to all actions and messages until nothing changes.
namespace lockstep::oracle {

/// Identifies a result and the message that carries it: (stage, microbatch, whether forward).
using Result = std::tuple<int, int, bool>;

struct Message {
  Result result;
  int from = 0;
  int to = 0;
  Picoseconds start = 0, sent = 0, arrived = 0;
};

struct Timed {
  std::vector<std::vector<TimedAction>> actions;
  std::map<Result, Message> messages;
};

/// Returns the times of a complete schedule, or nothing if it deadlocks. A deadlock is recognised
/// because times grow forever, which requires that no action takes zero time.
inline std::optional<Timed> solve(const Schedule& schedule, const PipelineTimes& times) {
  Timed timed;
  std::map<Result, Picoseconds> made;                                       // time of each result
  std::map<std::tuple<int, int, bool>, std::vector<Message*>> connections;  // by (from, to, kind)
  const auto home = [&](int stage) {
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    timed.actions.emplace_back(schedule.actions[rank].size());
    for (const Action& action : schedule.actions[rank]) {
      if (action.op == Op::backward_weight) continue;
      const bool forward = action.op == Op::forward;
      const int user = forward ? action.stage + 1 : action.stage - 1;
      if (user < 0 || user >= schedule.stages || home(user) == home(action.stage)) continue;
      const Result result{action.stage, action.microbatch, forward};
      Message& message = timed.messages[result];
      message = {result, home(action.stage), home(user)};
      connections[{message.from, message.to, forward}].push_back(&message);
    }
  }

  // The time at which an action has all the inputs that other actions produce.
  const auto input = [&](const Action& action) -> Picoseconds {
    const auto [op, stage, microbatch, joined] = action;
    const auto there = [&](const Result& result) {
      const auto message = timed.messages.find(result);
      return message == timed.messages.end() ? made[result] : message->second.arrived;
    };
    if (op == Op::forward) return stage == 0 ? 0 : there({stage - 1, microbatch, true});
    if (op == Op::backward_weight) return made[{stage, microbatch, false}];
    const Picoseconds own = made[{stage, microbatch, true}];
    return stage + 1 == schedule.stages ? own
                                        : std::max(own, there({stage + 1, microbatch, false}));
  };

  const std::size_t sweeps = 2 * schedule.action_count() + timed.messages.size() + 2;
  for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
    bool changed = false;
    const auto set = [&](Picoseconds& time, Picoseconds to) {
      changed = changed || time != to;
      time = to;
    };
    for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      Picoseconds free = 0;
      for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
        const Action& action = schedule.actions[rank][i];
        TimedAction& slot = timed.actions[rank][i];
        const bool joined = i > 0 && schedule.actions[rank][i - 1].with_next;
        Picoseconds ready = joined ? 0 : input(action);
        if (action.with_next) ready = std::max(ready, input(schedule.actions[rank][i + 1]));
        set(slot.start, std::max(free, ready));
        set(slot.end,
            slot.start + times.stages[static_cast<std::size_t>(action.stage)].of(action.op));
        free = slot.end;
        const auto finish = [&](const Action& done) {
          if (done.op != Op::backward_weight)
            made[{done.stage, done.microbatch, done.op == Op::forward}] = slot.end;
        };
        if (joined) finish(schedule.actions[rank][i - 1]);
        if (!action.with_next) finish(action);
      }
    }
    for (auto& [connection, messages] : connections) {
      const Picoseconds latency = times.cluster.latency(
          std::get<0>(connection), std::get<1>(connection), times.boundary_bytes);
      const Picoseconds transfer = times.cluster.transfer(
          std::get<0>(connection), std::get<1>(connection), times.boundary_bytes);
      Picoseconds sender_free = 0;
      Picoseconds receiver_free = 0;
      for (Message* message : messages) {
        set(message->start, std::max(made[message->result], sender_free));
        set(message->sent, message->start + transfer);
        set(message->arrived, std::max(message->sent + latency, receiver_free + transfer));
        sender_free = message->sent;
        receiver_free = message->arrived;
      }
    }
    if (!changed) return timed;
  }
  return std::nullopt;
}

}  // namespace lockstep::oracle
