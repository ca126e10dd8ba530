#include "viz/data/step/mean_step.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep::viz {

std::vector<MeanPart> mean_step(const StepAccount& account) {
  using Kind = MeanPart::Kind;
  const StepSums sum = account.sum();
  std::vector<MeanPart> parts{{Kind::compute, "compute", sum.compute},
                              {Kind::optimizer, "optimizer", sum.optimizer}};
  for (std::size_t axis = 0; axis < account.axes.size(); ++axis)
    parts.push_back({Kind::exposed, account.axes[axis], sum.axes[axis].sum()});
  parts.push_back({Kind::bubble, "bubble", sum.bubble()});
  parts.push_back({Kind::other, "other", sum.other});
  parts.push_back({Kind::ended, "ended", sum.ended});
  std::erase_if(parts, [](const MeanPart& part) { return part.sum == 0; });
  return parts;
}

Picoseconds not_computing(const StepSums& sums) {
  return plus(plus(sums.exposed().sum(), sums.bubble()), plus(sums.other, sums.ended));
}

double not_computing_share(const StepAccount& account) {
  const StepSums sum = account.sum();
  const auto whole = static_cast<double>(sum.total());
  return whole > 0 ? static_cast<double>(not_computing(sum)) / whole : 0;
}

void join_axes(std::vector<std::string>& names, const std::vector<std::string>& axes) {
  for (const std::string& axis : axes)
    if (std::ranges::find(names, axis) == names.end()) names.push_back(axis);
}

StepSums with_axes(const StepSums& sums, const std::vector<std::string>& from,
                   const std::vector<std::string>& to) {
  StepSums result = sums;
  result.axes.assign(to.size(), {});
  for (std::size_t i = 0; i < sums.axes.size(); ++i)
    result.axes[static_cast<std::size_t>(std::ranges::find(to, from[i]) - to.begin())] =
        sums.axes[i];
  return result;
}

std::vector<int> axis_slots(const std::vector<std::string>& axes) {
  constexpr std::pair<std::string_view, int> preferred[] = {{"tp", 0}, {"dp", 1}, {"dp_cp", 1},
                                                            {"pp", 2}, {"ep", 3}, {"cp", 4}};
  std::vector<int> slots(axes.size(), -1);
  std::array<bool, axis_slot_count> taken{};
  for (std::size_t i = 0; i < axes.size(); ++i)
    for (const auto& [name, slot] : preferred)
      if (name == axes[i] && !std::exchange(taken[static_cast<std::size_t>(slot)], true))
        slots[i] = slot;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (slots[i] >= 0) continue;
    const auto free = std::ranges::find(taken, false);
    slots[i] = free == taken.end() ? static_cast<int>(i % axis_slot_count)
                                   : static_cast<int>(free - taken.begin());
    taken[static_cast<std::size_t>(slots[i])] = true;
  }
  return slots;
}

Interval longest_step(const StepAccount& account) {
  for (const RankAccount& rank : account.ranks)
    if (rank.time.end - rank.time.start == account.length) return rank.time;
  return {};
}

double mean_of(Picoseconds sum, const StepAccount& account) {
  return static_cast<double>(sum) /
         static_cast<double>(std::max<std::size_t>(account.ranks.size(), 1));
}

}  // namespace lockstep::viz
