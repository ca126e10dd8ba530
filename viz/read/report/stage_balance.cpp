#include "viz/read/report/stage_balance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/text/text_table.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

namespace {

std::string pace_line(const StageBalance& seen) {
  const Picoseconds longest = seen.times[static_cast<std::size_t>(seen.slowest)];
  std::string text =
      ms(longest) == ms(std::ranges::min(seen.times))
          ? fmt::format("all stages take {} ms per microbatch", ms(longest))
          : fmt::format("stage {} takes longest: {} ms per microbatch, {} above the mean of {}",
                        seen.slowest, ms(longest),
                        percent(static_cast<double>(longest - seen.mean) /
                                static_cast<double>(std::max<Picoseconds>(seen.mean, 1))),
                        ms(seen.mean));
  if (seen.proposal && seen.proposal->block > 0)
    text +=
        fmt::format(" (a block takes {}, the embedding {}, the head {})", ms(seen.proposal->block),
                    ms(seen.proposal->embedding), ms(seen.proposal->head));
  return text + "\n";
}

}  // namespace

std::optional<StageBalance> observe_balance(const Timeline& timeline, int step,
                                            const std::vector<int>& pipeline, int stages,
                                            int microbatches) {
  StageBalance seen{.times = std::vector<Picoseconds>(static_cast<std::size_t>(stages))};
  for (const auto& rank : timeline.ranks()) {
    if (std::ranges::count(pipeline, rank->rank) == 0) continue;
    for (const TimelineSpan& span : actions_of(timeline, *rank, step))
      if (span.stage < stages) seen.times[static_cast<std::size_t>(span.stage)] += span.duration();
  }
  if (std::ranges::count(seen.times, 0) > 0) return {};
  for (Picoseconds& time : seen.times) time /= microbatches;
  seen.slowest = static_cast<int>(std::ranges::max_element(seen.times) - seen.times.begin());
  seen.mean = std::accumulate(seen.times.begin(), seen.times.end(), Picoseconds{0}, plus) / stages;
  return seen;
}

std::string balance_lines(const StageBalance& seen, bool modelled_clock) {
  std::string text = pace_line(seen);
  if (!seen.proposal)
    return text + (modelled_clock ? "no split is proposed: layers that communicate, blocking sends "
                                    "and unlike replicas can't be simulated\n"
                                  : "with --clock modelled, this report also proposes a split\n");
  const SplitProposal& found = *seen.proposal;
  if (found.better == found.split)
    return text +
           fmt::format("no split is better than {}: the pipeline's actions take {} ms, simulated\n",
                       fmt::join(found.split, ","), ms(found.step));
  return text +
         fmt::format(
             "--split {} is better: the pipeline's actions take {} ms instead of {}, simulated\n",
             fmt::join(found.better, ","), ms(found.better_step), ms(found.step));
}

}  // namespace lockstep
