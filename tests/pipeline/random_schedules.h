#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/simulator.h"
#include "core/pipeline/validate.h"

/// Random schedules that are valid by construction, and random costs for timing them.
namespace lockstep {

inline int pick(std::mt19937& random, int least, int most) {
  return std::uniform_int_distribution{least, most}(random);
}

/// Returns a placement of stages: round-robin (interleaved 1F1B), back and forth (ZB-V), or
/// arbitrary.
inline std::vector<int> random_placement(std::mt19937& random, int ranks, int stages) {
  const int kind = pick(random, 0, 2);
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < stages; ++stage) {
    const int turn = stage / ranks;
    const int along = stage % ranks;
    if (kind == 0) rank_of_stage.push_back(along);
    if (kind == 1) rank_of_stage.push_back(turn % 2 == 0 ? along : ranks - 1 - along);
    if (kind == 2) rank_of_stage.push_back(pick(random, 0, ranks - 1));
  }
  return rank_of_stage;
}

/// Returns a schedule in a random topological order of the dependency graph, built by repeatedly
/// appending a ready action to its rank's list. For each stage and microbatch, chooses at random
/// between B, and I with W.
inline Schedule random_schedule(std::mt19937& random) {
  Schedule schedule;
  schedule.name = "random";
  schedule.ranks = pick(random, 1, 4);
  schedule.stages = schedule.ranks * pick(random, 1, 3);
  schedule.microbatches = pick(random, 1, 5);
  schedule.rank_of_stage = random_placement(random, schedule.ranks, schedule.stages);
  schedule.actions.resize(static_cast<std::size_t>(schedule.ranks));

  std::vector<Action> ready;
  for (int i = 0; i < schedule.microbatches; ++i) ready.push_back({Op::forward, 0, i});
  const auto backward = [&](int stage, int microbatch) {
    return Action{pick(random, 0, 1) ? Op::backward : Op::backward_input, stage, microbatch};
  };
  while (!ready.empty()) {
    const auto at = pick(random, 0, static_cast<int>(ready.size()) - 1);
    const Action action = ready[static_cast<std::size_t>(at)];
    ready.erase(ready.begin() + at);
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(action.stage)];
    schedule.actions[static_cast<std::size_t>(rank)].push_back(action);
    const auto& [op, stage, microbatch, joined] = action;
    if (op == Op::forward && stage + 1 < schedule.stages)
      ready.push_back({Op::forward, stage + 1, microbatch});
    if (op == Op::forward && stage + 1 == schedule.stages)
      ready.push_back(backward(stage, microbatch));
    if ((op == Op::backward || op == Op::backward_input) && stage > 0)
      ready.push_back(backward(stage - 1, microbatch));
    if (op == Op::backward_input) ready.push_back({Op::backward_weight, stage, microbatch});
  }
  return schedule;
}

/// Returns a random schedule in which every rank has a stage.
inline Schedule random_full_schedule(std::mt19937& random) {
  while (true) {
    Schedule schedule = random_schedule(random);
    if (std::set(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end()).size() ==
        static_cast<std::size_t>(schedule.ranks))
      return schedule;
  }
}

/// Joins random neighbours (a forward and an independent backward), skipping pairs that would
/// deadlock the schedule. Returns the number of joined pairs.
inline int join_some(std::mt19937& random, Schedule& schedule) {
  int joined = 0;
  for (auto& row : schedule.actions)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      const Action& next = row[i + 1];
      const bool fits = row[i].op == Op::forward &&
                        (next.op == Op::backward || next.op == Op::backward_input) &&
                        (next.stage != row[i].stage || next.microbatch != row[i].microbatch);
      if (!fits || pick(random, 0, 2) == 0) continue;
      row[i].with_next = true;
      try {
        validate(schedule);
        ++joined;
      } catch (const ScheduleError&) {
        row[i].with_next = false;
      }
    }
  return joined;
}

/// Returns validate()'s error message, or "" if the schedule is valid.
inline std::string complaint(const Schedule& schedule) {
  try {
    validate(schedule);
    return {};
  } catch (const ScheduleError& error) {
    return error.what();
  }
}

/// Returns a random rank that has actions, and an index into its list.
inline std::pair<std::size_t, std::size_t> random_place(std::mt19937& random,
                                                        const Schedule& schedule) {
  std::size_t rank = 0;
  do {
    rank = static_cast<std::size_t>(pick(random, 0, schedule.ranks - 1));
  } while (schedule.actions[rank].empty());
  return {rank, static_cast<std::size_t>(
                    pick(random, 0, static_cast<int>(schedule.actions[rank].size()) - 1))};
}

/// Swaps one to three pairs of actions, each on one rank and at most three places apart.
inline void shuffle_some(std::mt19937& random, Schedule& schedule) {
  for (int swaps = pick(random, 1, 3); swaps > 0; --swaps) {
    const auto [rank, at] = random_place(random, schedule);
    const std::size_t other = std::min(at + static_cast<std::size_t>(pick(random, 1, 3)),
                                       schedule.actions[rank].size() - 1);
    std::swap(schedule.actions[rank][at], schedule.actions[rank][other]);
  }
}

/// Random costs of 0 to 9 µs per stage and op, and links with 0 to 9 µs of latency and 0 to 9 µs of
/// transfer, drawn separately within and between nodes of two ranks. With `none_free`, every action
/// takes at least 1 µs.
inline PipelineTimes random_times(std::mt19937& random, const Schedule& schedule,
                                  bool none_free = false) {
  const auto time = [&] { return Picoseconds{1'000'000} * pick(random, none_free ? 1 : 0, 9); };
  PipelineTimes times;
  for (int stage = 0; stage < schedule.stages; ++stage)
    times.stages.push_back({time(), time(), time(), time()});
  times.boundary_bytes = 1000;
  times.cluster.nodes = 2;
  times.cluster.ranks_per_node = 2;
  for (Link* link : {&times.cluster.within, &times.cluster.between}) {
    link->latency_seconds = pick(random, 0, 9) * 1e-6;
    if (const int transfer = pick(random, 0, 9); transfer > 0)
      link->bandwidth = 1000 / (transfer * 1e-6);
  }
  return times;
}

}  // namespace lockstep
