#include "lessons/17_choosing/plan/search.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "core/comm/choose_algorithm.h"
#include "core/run/options/options.h"

namespace lockstep {

namespace {

/// A configuration with its bounds.
struct Candidate {
  Configuration configuration;
  LowerBounds bounds;
  double estimate = 0;  ///< of the step, in picoseconds
};

/// Estimates a step, in picoseconds, from its lower bound and the exchanges among replicas that
/// backward passes are too short to hide. The estimate only selects the configurations to replay.
double estimate(const TrainingTask& task, const Candidate& candidate, const ModelCosts& costs) {
  const Configuration& c = candidate.configuration;
  const auto bound = static_cast<double>(candidate.bounds.step);
  const int replicas = c.dp * c.cp;
  if (replicas == 1) return bound;
  std::vector<int> ranks;
  for (int i = 0; i < replicas; ++i) ranks.push_back(i * c.tp);
  const int blocks = (task.model.layers + c.pp - 1) / c.pp;
  PartCosts stage = costs.block.times(blocks);
  stage += costs.embedding;
  const Collective sum =
      with_default_algorithm({.operation = Operation::all_reduce,
                              .elements = stage.gradients / 4 / replicas * replicas,
                              .choice = Collective::Choice::by_cost_or_switch},
                             ranks, task.cluster);
  const double whole =
      1e12 * all_reduce_seconds(sum.algorithm, stage.gradients, ranks, task.cluster);
  const int m = c.microbatches(task.batch);
  const auto forward = static_cast<double>(stage.forward),
             backward = static_cast<double>(stage.backward);
  switch (c.zero) {
    case 0:
      return bound + std::max(whole - backward, 0.0);
    case 1:
      return bound + std::max(whole / 2 - backward, 0.0) + whole / 2;
    case 2:
      return bound + m * std::max(whole / 2 - backward, 0.0) + whole / 2;
    default:
      return bound + m * std::max(1.5 * whole - forward - backward, 0.0);
  }
}

/// A key that is equal for configurations that share the costs of the model's parts.
auto costs_key(const Configuration& c) {
  return std::tuple{c.tp, c.cp, c.ep, c.microbatch, c.recompute};
}

/// A key that is equal for configurations that differ only in how the ranks of the same mesh work.
auto layout_of(const Configuration& c) {
  return std::tuple{c.tp, c.pp, c.dp, c.cp, c.ep};
}

/// Calls work(i) for i from 0 to count - 1, on all cores.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::mutex mutex;
  std::size_t next = 0;
  std::exception_ptr failure;
  const auto loop = [&] {
    while (true) {
      std::size_t mine = 0;
      {
        const std::lock_guard lock{mutex};
        if (next == count || failure) return;
        mine = next++;
      }
      try {
        work(mine);
      } catch (...) {
        const std::lock_guard lock{mutex};
        failure = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < available_cores(); ++i) threads.emplace_back(loop);
  loop();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<std::size_t> best_of_each_mesh(const std::vector<RankedPlan>& plans) {
  std::vector<std::size_t> best;
  std::set<decltype(layout_of(Configuration{}))> seen;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (seen.insert(layout_of(plans[i].configuration)).second) best.push_back(i);
  return best;
}

void add(SearchResult& result, const std::vector<RankedPlan>& plans) {
  for (const RankedPlan& plan : plans) {
    const bool known = std::ranges::any_of(result.plans, [&](const RankedPlan& other) {
      return other.configuration == plan.configuration;
    });
    if (known) continue;
    const auto step = [](const RankedPlan& other) { return other.figures.step; };
    result.plans.insert(std::ranges::upper_bound(result.plans, plan.figures.step, {}, step), plan);
  }
}

SearchResult search(const TrainingTask& task, const SearchSpace& space, std::size_t replays,
                    const std::function<void(const std::string&)>& progress) {
  SearchResult result;
  const auto tell = [&](const std::string& text) {
    if (progress) progress(text);
  };
  const std::int64_t memory = task.cluster.memory.value_or(std::int64_t{1} << 62);
  const std::vector<Configuration> all = configurations(task, space);

  using Key = decltype(costs_key(Configuration{}));
  std::map<Key, std::optional<ModelCosts>> costs;
  for (const Configuration& each : all) costs[costs_key(each)];
  std::vector<std::pair<Key, std::optional<ModelCosts>*>> unknown;
  for (auto& [key, value] : costs) unknown.emplace_back(key, &value);
  std::mutex mutex;
  in_parallel(unknown.size(), [&](std::size_t i) {
    Configuration any;
    std::tie(any.tp, any.cp, any.ep, any.microbatch, any.recompute) = unknown[i].first;
    any.sequence_parallel = any.tp > 1 && task.sequence_parallel;
    std::string why;
    try {
      *unknown[i].second = model_costs(task, any);
    } catch (const UsageError& error) {
      why = error.what();
    }
    const std::lock_guard lock{mutex};
    if (!why.empty()) result.why_refused = why;
    tell(fmt::format("costs of layers: {} of {}", i + 1, unknown.size()));
  });

  std::vector<Candidate> candidates;
  for (const Configuration& each : all) {
    const std::optional<ModelCosts>& parts = costs.at(costs_key(each));
    if (!parts) continue;
    ++result.considered;
    Candidate candidate{each, lower_bounds(task, each, *parts)};
    if (!result.smallest || candidate.bounds.memory < result.smallest_memory) {
      result.smallest = each;
      result.smallest_memory = candidate.bounds.memory;
    }
    if (candidate.bounds.memory > memory) {
      ++result.cut_by_memory;
      continue;
    }
    candidate.estimate = estimate(task, candidate, *parts);
    candidates.push_back(candidate);
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::estimate);

  std::vector<bool> done(candidates.size());
  const auto best = [&] {
    return result.plans.empty() ? std::numeric_limits<Picoseconds>::max()
                                : result.plans.front().figures.step;
  };
  // Replays candidates in the order of their estimates, until `most` of them fit. They are taken a
  // few at a time, so that the result does not depend on the number of cores.
  const auto replay_some = [&](std::size_t most, const std::function<bool(std::size_t)>& wanted) {
    std::size_t fitting = 0;
    for (std::size_t next = 0; next < candidates.size() && fitting < most;) {
      std::vector<std::size_t> taken;
      for (; next < candidates.size() && taken.size() < std::min<std::size_t>(4, most - fitting);
           ++next)
        if (!done[next] && wanted(next)) taken.push_back(next);
      std::vector<std::optional<RankedPlan>> plans(taken.size());
      in_parallel(taken.size(), [&](std::size_t i) {
        const Candidate& candidate = candidates[taken[i]];
        try {
          plans[i] = {candidate.configuration,
                      step_figures(planned_run(task, candidate.configuration), memory),
                      candidate.bounds};
        } catch (const UsageError& error) {
          const std::lock_guard lock{mutex};
          result.why_refused = error.what();
        }
      });
      for (std::size_t i = 0; i < taken.size(); ++i) {
        done[taken[i]] = true;
        if (!plans[i]) {
          --result.considered;
        } else if (plans[i]->figures.peak > memory) {
          result.too_large.push_back(std::move(*plans[i]));
        } else {
          ++fitting;
          add(result, {std::move(*plans[i])});
        }
      }
      tell(fmt::format("replays: {}", result.plans.size()));
    }
  };
  replay_some(replays, [&](std::size_t i) { return candidates[i].bounds.step < best(); });
  // Besides variants of the best plan, replays two configurations of each other mesh for
  // comparison.
  std::map<decltype(layout_of(Configuration{})), int> tried;
  for (const RankedPlan& plan : result.plans) tried[layout_of(plan.configuration)] = 2;
  replay_some(replays / 4,
              [&](std::size_t i) { return ++tried[layout_of(candidates[i].configuration)] <= 2; });
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!done[i] && !result.plans.empty())
      ++(candidates[i].bounds.step < best() ? result.left : result.cut_by_time);
  return result;
}

}  // namespace lockstep
