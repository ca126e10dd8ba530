#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "viz/read/explain/counterfactuals.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep {

namespace {

/// Adds an estimate if the saving is positive in each step. `savings` holds the saving of each
/// step.
void estimate(Counterfactuals& found, Counterfactual what, std::vector<Picoseconds> savings) {
  if (savings.empty() || std::ranges::min(savings) <= 0) return;
  what.estimated = true;
  what.least = std::ranges::min(savings);
  what.most = std::ranges::max(savings);
  what.step = found.length - std::min(lower_median(std::move(savings)), found.length);
  found.all.push_back(std::move(what));
}

}  // namespace

Counterfactuals estimate_what_would_help(const Timeline& timeline, const std::vector<int>& steps) {
  Counterfactuals found;
  std::map<std::string, std::vector<Picoseconds>> free;  // savings, by axis
  std::map<int, std::vector<Slow>> slow;                 // by rank
  std::size_t counted = 0;
  for (const int step : steps) {
    const StepAccount account = step_account(timeline, step);
    if (account.ranks.empty()) continue;
    ++counted;
    found.step = step;
    found.length = account.length;
    for (std::size_t axis = 0; axis < account.axes.size(); ++axis) {
      Picoseconds longest = 0;
      for (const RankAccount& rank : account.ranks)
        longest =
            std::max(longest, rank.time.end - rank.time.start - rank.sums.axes[axis].transfer -
                                  rank.sums.axes[axis].latency);
      free[account.axes[axis]].push_back(account.length - longest);
    }
    std::vector<Picoseconds> compute;
    std::vector<std::set<int>> roles;
    for (const RankAccount& rank : account.ranks) {
      compute.push_back(plus(rank.sums.compute, rank.sums.optimizer));
      roles.push_back(stages_of(timeline, *timeline.find_rank(rank.rank), step));
    }
    for (Slow each : compared_with_peers(compute, roles)) {
      each.number = account.ranks[static_cast<std::size_t>(each.number)].rank;
      slow[each.number].push_back(each);
    }
  }
  for (auto& [axis, savings] : free)
    if (savings.size() == counted)
      estimate(found, {.claim = Claim::free_axis, .what = axis + " communication free"}, savings);
  for (const auto& [rank, seen] : slow) {
    std::vector<Picoseconds> savings;
    // Even with this rank at the median's pace, its slowest peer would take as long as before.
    for (const Slow& each : seen) savings.push_back(each.compute - each.slowest);
    if (savings.size() != counted) continue;
    Counterfactual what = rank_at_pace(seen.back());
    what.changes.clear();
    estimate(found, std::move(what), std::move(savings));
  }
  found.keep_what_helps();
  return found;
}

}  // namespace lockstep
