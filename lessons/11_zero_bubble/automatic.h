#pragma once

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/simulator.h"
#include "lessons/11_zero_bubble/zb_h1.h"
#include "lessons/11_zero_bubble/zb_h2.h"

namespace lockstep {

/// A pipeline for which a schedule is searched: one stage per rank, with these times. No rank may
/// hold more than `limit` microbatches at once, from F to W.
struct Search {
  int microbatches = 1;
  int limit = 1;
  PipelineTimes times;
  int ranks() const { return static_cast<int>(times.stages.size()); }
};

/// The cost of a schedule: the longest window of any rank (from its first start to its last end),
/// which is the time between two steps if ranks need not wait for each other between them; then the
/// step's time; then the sum of all windows, so that the search notices progress on any rank.
using ScheduleCost = std::tuple<Picoseconds, Picoseconds, Picoseconds>;

inline ScheduleCost cost_of(const Schedule& schedule, const PipelineTimes& times) {
  const Simulation simulation = simulate(schedule, times);
  Picoseconds longest = 0, sum = 0;
  for (const std::vector<TimedAction>& row : simulation.actions) {
    const Picoseconds window = row.back().end - row.front().start;
    longest = std::max(longest, window);
    sum = plus(sum, window);
  }
  return {longest, simulation.makespan, sum};
}

/// The rules by which list_schedule() decides.
struct ListRules {
  double warm_up = 1;  ///< forward passes in the warm-up for each later rank
  double gap = 1;      ///< the smallest gap that W fills, as a fraction of W
};

/// Builds a schedule by playing the pipeline in order of time: a rank that becomes free chooses
/// among the inputs that have arrived. It runs its warm-up first, then I and F in turn. If neither
/// has arrived, or if memory is full, it runs the W that has waited longest, unless the next input
/// arrives first.
inline Schedule list_schedule(const Search& search, const ListRules& rules) {
  constexpr Picoseconds never = std::numeric_limits<Picoseconds>::max();
  struct State {
    Picoseconds free = 0;
    int forwards = 0, inputs = 0, weights = 0, warm_up = 0;
    std::vector<Picoseconds> activations, gradients;  // arrivals
  };
  const int p = search.ranks(), m = search.microbatches;
  std::vector<State> ranks(static_cast<std::size_t>(p));
  const auto size = static_cast<std::size_t>(m);
  for (int q = 0; q < p; ++q) {
    const int warm_up = 1 + static_cast<int>(rules.warm_up * (p - 1 - q) + 0.5);
    ranks[static_cast<std::size_t>(q)] = {
        .warm_up = std::min({warm_up, search.limit, m}),
        .activations = std::vector<Picoseconds>(size, q == 0 ? 0 : never),
        .gradients = std::vector<Picoseconds>(size, never)};
  }
  const auto hop = [&](int from, int to) {
    const std::int64_t bytes = search.times.boundary_bytes;
    return plus(search.times.cluster.transfer(from, to, bytes),
                search.times.cluster.latency(from, to, bytes));
  };
  // The times at which a rank can next run each of the three, as far as is known now.
  const auto forward_at = [&](const State& rank) {
    const bool full = rank.forwards - rank.weights >= search.limit;
    return rank.forwards == m || full
               ? never
               : std::max(rank.free, rank.activations[static_cast<std::size_t>(rank.forwards)]);
  };
  const auto input_at = [&](const State& rank) {
    return rank.inputs == rank.forwards
               ? never
               : std::max(rank.free, rank.gradients[static_cast<std::size_t>(rank.inputs)]);
  };

  Schedule schedule = one_stage_per_rank("automatic", p, m);
  while (true) {
    // The rank whose next decision is the earliest.
    int q = -1;
    Picoseconds now = never;
    Op op = Op::forward;
    for (int each = 0; each < p; ++each) {
      const State& rank = ranks[static_cast<std::size_t>(each)];
      const Picoseconds forward = forward_at(rank), input = input_at(rank);
      const bool turn_of_forward = rank.forwards - rank.inputs < rank.warm_up;
      Picoseconds start = std::min(forward, input);
      Op choice = forward < input || (forward == input && turn_of_forward) ? Op::forward
                                                                           : Op::backward_input;
      // In the steady state, no more forward passes are ahead than in the warm-up.
      if (choice == Op::forward && !turn_of_forward) {
        start = input;
        choice = Op::backward_input;
      }
      const StageTimes& times = search.times.stages[static_cast<std::size_t>(each)];
      const auto worth =
          static_cast<Picoseconds>(rules.gap * static_cast<double>(times.backward_weight));
      if (rank.weights < rank.inputs && (start == never || start - rank.free > worth - 1)) {
        const bool nothing_else = start == never || start > rank.free;
        if (nothing_else) {
          start = rank.free;
          choice = Op::backward_weight;
        }
      }
      if (start < now) {
        now = start;
        q = each;
        op = choice;
      }
    }
    if (q < 0) return schedule;
    State& rank = ranks[static_cast<std::size_t>(q)];
    const StageTimes& times = search.times.stages[static_cast<std::size_t>(q)];
    const Picoseconds end = rank.free = search.times.cluster.after(now, times.of(op));
    int& next = op == Op::forward          ? rank.forwards
                : op == Op::backward_input ? rank.inputs
                                           : rank.weights;
    schedule.actions[static_cast<std::size_t>(q)].push_back({op, q, next});
    const auto i = static_cast<std::size_t>(next++);
    if (op == Op::forward && q + 1 < p)
      ranks[static_cast<std::size_t>(q + 1)].activations[i] = plus(end, hop(q, q + 1));
    if (op == Op::forward && q + 1 == p) rank.gradients[i] = end;
    if (op == Op::backward_input && q > 0)
      ranks[static_cast<std::size_t>(q - 1)].gradients[i] = plus(end, hop(q, q - 1));
  }
}

/// Moves one action of a rank by a few places. Returns false, and changes nothing, if an order
/// would be broken: microbatches ascend in each of F, I and W; F before I before W; at most `limit`
/// live.
inline bool move_action(std::vector<Action>& row, std::size_t from, std::size_t to, int limit) {
  std::vector<Action> moved = row;
  const Action action = moved[from];
  moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(from));
  moved.insert(moved.begin() + static_cast<std::ptrdiff_t>(to), action);
  int forwards = 0, inputs = 0, weights = 0;
  for (Action& each : moved) {
    int& done = each.op == Op::forward          ? forwards
                : each.op == Op::backward_input ? inputs
                                                : weights;
    each.microbatch = done++;
    if (inputs > forwards || weights > inputs || forwards - weights > limit) return false;
  }
  row = std::move(moved);
  return true;
}

/// Searches for a schedule with the smallest cost. Starts from the best of ZB-H1, ZB-H2 and a
/// number of list schedules that respect the limit, and then tries random moves of single actions
/// and keeps those that make nothing worse. The result depends only on the arguments.
inline Schedule automatic_schedule(const Search& search) {
  const int p = search.ranks(), m = search.microbatches;
  Schedule best;
  ScheduleCost least{};
  const auto consider = [&](const Schedule& schedule) {
    for (int q = 0; q < p; ++q)
      if (peak_live_microbatches(schedule, q) > search.limit) return;
    const ScheduleCost cost = cost_of(schedule, search.times);
    if (!best.actions.empty() && cost >= least) return;
    best = schedule;
    least = cost;
  };
  consider(zb_h1(p, 1, m));
  consider(zb_h2(p, m));
  for (const double warm_up : {0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0})
    for (const double gap : {0.0, 0.25, 0.5, 0.75, 1.0})
      consider(list_schedule(search, {warm_up, gap}));
  best.name = "automatic";

  // A simulation takes a time proportional to the number of actions.
  const auto trials = std::min<std::size_t>(20'000, 12'000'000 / best.action_count());
  std::mt19937 random{1};
  const auto pick = [&](std::size_t count) { return random() % count; };
  for (std::size_t trial = 0; trial < trials; ++trial) {
    auto& row = best.actions[pick(best.actions.size())];
    const std::size_t from = pick(row.size()), distance = 1 + pick(4);
    const std::size_t to = pick(2) == 0 ? from + distance : from - distance;
    if (to >= row.size() || row[from].op == row[to].op) continue;
    const std::vector<Action> before = row;
    if (!move_action(row, from, to, search.limit)) continue;
    try {
      if (const ScheduleCost cost = cost_of(best, search.times); cost <= least) {
        least = cost;
        continue;
      }
    } catch (const ScheduleError&) {  // a deadlock
    }
    row = before;
  }
  return best;
}

}  // namespace lockstep
