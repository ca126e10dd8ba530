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
  Picoseconds estimate = 0;
};

/// Estimates a step from its lower bound and the exchanges among replicas that backward passes are
/// too short to hide. It only chooses what to replay.
Picoseconds estimate(const TrainingTask& task, const Candidate& candidate,
                     const ModelCosts& costs) {
  const Configuration& c = candidate.configuration;
  const int replicas = c.dp * c.cp;
  if (replicas == 1) return candidate.bounds.step;
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
  const Picoseconds whole =
      picoseconds(all_reduce_seconds(sum.algorithm, stage.gradients, ranks, task.cluster));
  const std::int64_t m = c.microbatches(task.batch);
  const auto exposed = [](Picoseconds communication, Picoseconds compute) {
    return std::max<Picoseconds>(communication - compute, 0);
  };
  switch (c.zero) {
    case 0:
      return candidate.bounds.step + exposed(whole, stage.backward);
    case 1:
      return candidate.bounds.step + exposed(whole / 2, stage.backward) + whole / 2;
    case 2:
      return candidate.bounds.step + exposed(m * whole / 2, m * stage.backward) + whole / 2;
    default:
      return candidate.bounds.step +
             exposed(3 * m * whole / 2, m * (stage.forward + stage.backward));
  }
}

/// The configurations that share the costs of the model's parts.
auto costs_key(const Configuration& c) {
  return std::tuple{c.tp, c.cp, c.ep, c.microbatch, c.recompute};
}

/// The configurations that differ only in how the ranks of the same mesh work.
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

SearchResult search(const TrainingTask& task, const SearchSpace& space, std::size_t replays,
                    const std::function<void(const std::string&)>& progress) {
  SearchResult result;
  const auto tell = [&](const std::string& text) {
    if (progress) progress(text);
  };
  const std::int64_t memory = task.cluster.memory.value_or(std::int64_t{1} << 62);
  const std::vector<Configuration> all = configurations(task, space);
  result.considered = all.size();

  using Key = decltype(costs_key(Configuration{}));
  std::map<Key, ModelCosts> costs;
  for (const Configuration& each : all) costs[costs_key(each)];
  std::vector<std::pair<Key, ModelCosts*>> unknown;
  for (auto& [key, value] : costs) unknown.emplace_back(key, &value);
  std::mutex mutex;
  in_parallel(unknown.size(), [&](std::size_t i) {
    Configuration any;
    std::tie(any.tp, any.cp, any.ep, any.microbatch, any.recompute) = unknown[i].first;
    any.sequence_parallel = any.tp > 1 && task.sequence_parallel;
    *unknown[i].second = model_costs(task, any);
    const std::lock_guard lock{mutex};
    tell(fmt::format("costs of layers: {} of {}", i + 1, unknown.size()));
  });

  std::vector<Candidate> candidates;
  for (const Configuration& each : all) {
    const ModelCosts& parts = costs.at(costs_key(each));
    Candidate candidate{each, lower_bounds(task, each, parts)};
    if (!result.smallest || candidate.bounds.memory < result.smallest_memory) {
      result.smallest = each;
      result.smallest_memory = candidate.bounds.memory;
    }
    if (candidate.bounds.memory > memory) {
      ++result.cut_by_memory;
      continue;
    }
    candidate.estimate = estimate(task, candidate, parts);
    candidates.push_back(candidate);
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::estimate);

  std::vector<bool> done(candidates.size());
  const auto best = [&] {
    return result.plans.empty() ? std::numeric_limits<Picoseconds>::max()
                                : result.plans.front().figures.step;
  };
  // Replays candidates in the order of their estimates, until `most` of them fit.
  const auto replay_some = [&](std::size_t most, const std::function<bool(std::size_t)>& wanted) {
    std::size_t next = 0, replayed = 0;
    const auto take = [&]() -> std::optional<std::size_t> {
      const std::lock_guard lock{mutex};
      for (; next < candidates.size() && replayed < most; ++next) {
        if (done[next] || !wanted(next)) continue;
        ++replayed;
        done[next] = true;
        tell(fmt::format("replay {} of {}", replayed, most));
        return next++;
      }
      return {};
    };
    in_parallel(static_cast<std::size_t>(available_cores()), [&](std::size_t) {
      while (const auto mine = take()) {
        const Candidate& candidate = candidates[*mine];
        RankedPlan plan{candidate.configuration, {}, candidate.bounds};
        plan.figures = step_figures(planned_run(task, candidate.configuration), memory);
        const std::lock_guard lock{mutex};
        if (plan.figures.peak > memory) {
          result.too_large.push_back(std::move(plan));
          --replayed;
          continue;
        }
        const auto step = [](const RankedPlan& other) { return other.figures.step; };
        result.plans.insert(std::ranges::upper_bound(result.plans, plan.figures.step, {}, step),
                            std::move(plan));
      }
    });
  };
  replay_some(replays, [&](std::size_t i) { return candidates[i].bounds.step < best(); });
  // Beside variants of the best, the best of other layouts, to compare with.
  std::set<decltype(layout_of(Configuration{}))> seen;
  for (const RankedPlan& plan : result.plans) seen.insert(layout_of(plan.configuration));
  replay_some(replays / 2, [&](std::size_t i) {
    return seen.insert(layout_of(candidates[i].configuration)).second;
  });
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!done[i] && !result.plans.empty())
      ++(candidates[i].bounds.step < best() ? result.left : result.cut_by_time);
  return result;
}

}  // namespace lockstep
