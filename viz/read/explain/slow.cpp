#include "viz/read/explain/slow.h"

#include <algorithm>
#include <map>

#include "viz/read/timeline/visit_band.h"

namespace lockstep {

Picoseconds lower_median(std::vector<Picoseconds> values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<Slow> compared_with_peers(const std::vector<Picoseconds>& compute,
                                      const std::vector<std::set<int>>& roles) {
  std::map<std::set<int>, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < compute.size(); ++i) members[roles[i]].push_back(i);
  std::vector<Slow> all;
  for (const auto& [role, peers] : members) {
    if (peers.size() < 2) continue;
    for (const std::size_t one : peers) {
      std::vector<Picoseconds> others;
      for (const std::size_t each : peers)
        if (each != one) others.push_back(compute[each]);
      Slow& slow = all.emplace_back();
      slow.number = static_cast<int>(one);
      slow.compute = compute[one];
      slow.slowest = std::ranges::max(others);
      slow.peers = others.size();
      slow.usual = lower_median(std::move(others));
    }
  }
  return all;
}

std::map<int, Picoseconds> waited_for(const Timeline& timeline, int step) {
  std::map<int, Picoseconds> waited;
  const StepWindow* window = timeline.find_step(step);
  if (!window) return waited;
  for (const auto& rank : timeline.ranks())
    if (const Lane* compute = rank->compute())
      visit_band(*compute, Band::action, {window->start, window->end},
                 [&](const TimelineSpan& span) {
                   if (span.step != step || span.category != Category::wait || span.peer < 0)
                     return;
                   if (span.peer == rank->rank) return;
                   Picoseconds& sum = waited[span.peer];
                   sum = plus(sum, span.duration());
                 });
  return waited;
}

}  // namespace lockstep
