#include "viz/data/step/straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/step/words.h"
#include "viz/read/explain/counterfactuals.h"
#include "viz/read/explain/slow.h"

namespace lockstep::viz {

std::optional<Straggler> straggler_of(const StepAccount& account,
                                      const std::vector<std::set<int>>& stages) {
  std::vector<Picoseconds> compute;
  for (const RankAccount& rank : account.ranks)
    compute.push_back(plus(rank.sums.compute, rank.sums.optimizer));
  std::vector<Slow> all = compared_with_peers(compute, stages);
  const bool compares_stages = all.empty();
  if (compares_stages)
    all = compared_with_peers(compute, std::vector<std::set<int>>(compute.size()));
  std::optional<Straggler> worst;
  for (const Slow& slow : all) {
    const auto index = static_cast<std::size_t>(slow.number);
    Straggler found{.rank = account.ranks[index].rank,
                    .compute = slow.compute,
                    .usual = slow.usual,
                    .slowest = slow.slowest,
                    .peers = slow.peers};
    if (compares_stages && stages[index].size() == 1) found.stage = *stages[index].begin();
    if (found.usual <= 0 || found.cost() <= 0 ||
        static_cast<double>(found.cost()) < least_cost * static_cast<double>(account.length))
      continue;
    if (!worst || found.cost() > worst->cost()) worst = found;
  }
  return worst;
}

std::optional<Straggler> straggler_of(const Timeline& timeline, const StepAccount& account) {
  std::vector<std::set<int>> stages;
  for (const RankAccount& rank : account.ranks)
    stages.push_back(stages_of(timeline, *timeline.find_rank(rank.rank), account.step));
  return straggler_of(account, stages);
}

std::string straggler_name(const Straggler& straggler) {
  return fmt::format("{}: rank {}", straggler.stage >= 0 ? "slow stage" : "straggler",
                     straggler.rank);
}

std::string change_to_peers_pace(const Straggler& straggler) {
  return rank_at_pace(
             {.number = straggler.rank, .compute = straggler.compute, .usual = straggler.usual})
      .changes.front();
}

std::string cost_words(const Straggler& straggler, Picoseconds recorded, Picoseconds changed) {
  const std::string without =
      straggler.stage >= 0
          ? fmt::format("If rank {} computed as fast as the other stages", straggler.rank)
          : "Without this straggler";
  const Scale scale = Scale::durations(static_cast<double>(std::max(recorded, changed)));
  const std::string time = scale(static_cast<double>(changed));
  if (time == scale(static_cast<double>(recorded)))
    return fmt::format("{}, the step would still take {}.", without, time);
  const auto by = static_cast<double>(changed) - static_cast<double>(recorded);
  return fmt::format("{}, the step would take {} ({} {}).", without, time, scale(std::abs(by)),
                     by < 0 ? "less" : "more");
}

std::string straggler_words(const Straggler& straggler) {
  const std::string peers =
      straggler.stage >= 0   ? fmt::format("any of the {} other stages", straggler.peers)
      : straggler.peers == 1 ? std::string{"its only peer"}
                             : fmt::format("any of its {} peers", straggler.peers);
  return fmt::format("rank {} computes for {} in this step, {} longer than {}", straggler.rank,
                     duration_words(straggler.compute), duration_words(straggler.cost()), peers);
}

std::optional<Awaited> longest_awaited(const std::map<int, Picoseconds>& waited) {
  const auto most =
      std::ranges::max_element(waited, {}, [](const auto& each) { return each.second; });
  if (most == waited.end()) return {};
  return Awaited{most->first, most->second};
}

std::string awaited_words(const Awaited& awaited) {
  return fmt::format("The others waited longest for rank {}: {} in all.", awaited.rank,
                     duration_words(awaited.time));
}

}  // namespace lockstep::viz
