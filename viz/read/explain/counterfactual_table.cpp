#include "viz/read/explain/counterfactual_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/text_table.h"

namespace lockstep {

namespace {

constexpr std::size_t most_rows = 8;

}  // namespace

std::string counterfactual_table(const Counterfactuals& found) {
  const auto share = [&](Picoseconds saving) {
    return static_cast<double>(saving) /
           static_cast<double>(std::max<Picoseconds>(found.length, 1));
  };
  std::vector<std::string> rows;
  std::size_t more = 0;
  bool estimated = false;
  const Counterfactual* before = nullptr;
  for (const Counterfactual& each : found.all) {
    const Picoseconds saving = found.saving(each);
    if (share(saving) < least_saving) continue;
    estimated = estimated || each.estimated;
    if (before && before->step == each.step && !each.estimated && !rows.empty()) {
      rows.back() += "; likewise " + each.what;
      continue;
    }
    before = &each;
    if (rows.size() == most_rows) {
      ++more;
      continue;
    }
    rows.push_back(fmt::format("  {:>10} ms  {:>7}  {}", ms(each.step),
                               fmt::format("{:+.1f} %", -100 * share(saving)), each.what));
    if (each.estimated)
      rows.back() += fmt::format(" ({} to {} ms less)", ms(each.least), ms(each.most));
  }
  if (rows.empty() && found.left_out == 0) return {};
  std::string text =
      fmt::format("what would shorten step {}, which takes {} ms\n", found.step, ms(found.length));
  for (const std::string& row : rows) text += row + "\n";
  if (more > 0) text += fmt::format("  and {} more changes, which save less\n", more);
  if (found.left_out > 0)
    text += fmt::format(
        "  not tried: {} more changes (single ranks and stages that are less slow, or "
        "because replays of this run take long)\n",
        found.left_out);
  return text +
         (estimated
              ? "  rough estimates: medians and ranges over the phase's steps; they ignore how "
                "one rank's wait delays others\n"
              : fmt::format("  each is a replay of the run's operations with only that changed "
                            "(./lockstep retime){}\n",
                            found.choices.empty() ? ""
                                                  : fmt::format("; the choice by {} is kept",
                                                                fmt::join(found.choices, ", "))));
}

}  // namespace lockstep
