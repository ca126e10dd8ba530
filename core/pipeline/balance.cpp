#include "core/pipeline/balance.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace lockstep {

namespace {

/// The largest number of actions that a search simulates, which takes a fraction of a second.
constexpr std::size_t most_actions = 2'000'000;

StageTimes operator+(const StageTimes& a, const StageTimes& b) {
  return {plus(a.forward, b.forward), plus(a.backward, b.backward),
          plus(a.backward_input, b.backward_input), plus(a.backward_weight, b.backward_weight)};
}

Picoseconds work(const StageTimes& times) {
  return plus(times.forward, times.backward);
}

constexpr double impossible = std::numeric_limits<double>::infinity();

/// The best division of a number of blocks into a number of stages.
struct Best {
  double cost = impossible;
  std::size_t first = 0;  ///< the first block of the last of these stages
};

/// Finds the best split by dynamic programming. `time(stage, first, last)` is the time of a stage
/// with blocks [first, last), and `add(cost, time)` is the cost of some stages plus one more stage.
template <class Time, class Add>
std::pair<std::vector<int>, double> best_split(std::size_t stages, std::size_t blocks,
                                               const Time& time, const Add& add) {
  // table[stage][last] is the best division of blocks [0, last) into stages 0 to `stage`.
  std::vector<std::vector<Best>> table(stages, std::vector<Best>(blocks + 1));
  for (std::size_t stage = 0; stage < stages; ++stage)
    for (std::size_t last = stage + 1; last <= blocks; ++last)
      for (std::size_t first = stage; first < (stage == 0 ? 1 : last); ++first) {
        const double before = stage == 0 ? 0 : table[stage - 1][first].cost;
        const double cost = add(before, static_cast<double>(time(stage, first, last)));
        if (cost < table[stage][last].cost) table[stage][last] = {cost, first};
      }
  std::vector<int> split(stages);
  for (std::size_t stage = stages, last = blocks; stage-- > 0;) {
    const std::size_t first = table[stage][last].first;
    split[stage] = static_cast<int>(last - first);
    last = first;
  }
  return {split, table[stages - 1][blocks].cost};
}

}  // namespace

std::vector<StageTimes> PartTimes::stages(const std::vector<int>& split) const {
  return stages_of(PartTimesByStage(split.size(), *this), split);
}

std::vector<StageTimes> stages_of(const PartTimesByStage& parts, const std::vector<int>& split) {
  std::vector<StageTimes> stages;
  std::ptrdiff_t first = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const auto block = parts[stage].blocks.begin() + first;
    stages.push_back(std::accumulate(block, block + split[stage], StageTimes{},
                                     [](const auto& a, const auto& b) { return a + b; }));
    first += split[stage];
  }
  stages.front() = stages.front() + parts.front().embedding;
  stages.back() = stages.back() + parts.back().head;
  return stages;
}

std::vector<int> balanced_split(const PartTimes& parts, int stages) {
  if (stages < 1) throw std::invalid_argument("balanced_split: every stage needs a block");
  return balanced_split(PartTimesByStage(static_cast<std::size_t>(stages), parts));
}

std::vector<int> balanced_split(const PartTimesByStage& parts) {
  const std::size_t count = parts.size(), layers = parts.empty() ? 0 : parts.front().blocks.size();
  if (count < 1 || count > layers)
    throw std::invalid_argument("balanced_split: every stage needs a block");
  // The work of the blocks before each, by stage.
  std::vector<std::vector<Picoseconds>> before(count, {0});
  for (std::size_t stage = 0; stage < count; ++stage)
    for (const StageTimes& block : parts[stage].blocks)
      before[stage].push_back(plus(before[stage].back(), work(block)));
  const auto of_stage = [&](std::size_t stage, std::size_t first, std::size_t last) {
    return plus(before[stage][last] - before[stage][first],
                plus(stage == 0 ? work(parts.front().embedding) : 0,
                     stage + 1 == count ? work(parts.back().head) : 0));
  };

  // The sum of squares decides only among the splits with the shortest longest stage.
  const double longest =
      best_split(count, layers, of_stage, [](double a, double b) { return std::max(a, b); }).second;
  return best_split(count, layers, of_stage,
                    [&](double squares, double time) {
                      return time > longest ? impossible : squares + time * time;
                    })
      .first;
}

SimulatedSplit shortest_step(const PartTimesByStage& parts, const Schedule& schedule,
                             const PipelineTimes& times, const std::vector<int>& current) {
  PipelineTimes with = times;
  std::size_t simulated = 0;
  const auto step_of = [&](const std::vector<int>& split) {
    with.stages = stages_of(parts, split);
    simulated += schedule.action_count();
    return simulate(schedule, with).makespan;
  };

  const auto improve = [&](SimulatedSplit best) {
    for (bool improved = true; improved;) {
      improved = false;
      for (std::size_t from = 0; from < best.split.size(); ++from)
        for (std::size_t to = 0; to < best.split.size(); ++to) {
          if (from == to || best.split[from] == 1) continue;
          if (simulated > most_actions) return best;
          std::vector<int> moved = best.split;
          --moved[from];
          ++moved[to];
          if (const Picoseconds step = step_of(moved); step < best.step) {
            best = {std::move(moved), step};
            improved = true;
          }
        }
    }
    return best;
  };
  const std::vector<int> balanced = balanced_split(parts);
  const SimulatedSplit now{current, step_of(current)};
  const SimulatedSplit here = improve({balanced, step_of(balanced)});
  const SimulatedSplit there = improve(now);
  const SimulatedSplit& best = here.step <= there.step ? here : there;
  return best.step < now.step ? best : now;
}

}  // namespace lockstep
