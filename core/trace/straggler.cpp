#include "core/trace/straggler.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/trace/visit_band.h"

namespace lockstep {
namespace {

struct Entry {
  Picoseconds time = 0;
  int rank = 0;
};

/// The entries into each collective of a step, by group, sequence and operation.
using Collective = std::tuple<NameId, int, NameId>;
struct Entries {
  int group_size = 0;
  std::vector<Entry> entries;
};
using Collectives = std::map<Collective, Entries>;

void add_entries(const Timeline& timeline, const RankTimeline& rank, const StepWindow& step,
                 Collectives& all) {
  const Interval window{step.start, step.end};
  const std::set<int> sending = sending_lanes(timeline, rank, window);
  for (const auto& lane : rank.lanes) {
    // A collective's spans on other lanes are messages that arrive, possibly before the rank itself
    // has entered.
    if (!sending.empty() && !sending.contains(lane->tid())) continue;
    visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
      if (span.category != Category::communication || span.step != step.step ||
          span.group_size < 2 || span.sequence < 0)
        return;
      Entries& found = all[{span.group, span.sequence, span.name}];
      found.group_size = span.group_size;
      if (found.entries.empty() || found.entries.back().rank != rank.rank) {
        found.entries.push_back({span.start, rank.rank});
      } else {
        found.entries.back().time = std::min(found.entries.back().time, span.start);
      }
    });
  }
}

/// Returns the median; of an even number of values, the lower one.
template <class Values, class Projection = std::identity>
auto median(Values& values, Projection projection = {}) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::ranges::nth_element(values, middle, {}, projection);
  return projection(*middle);
}

}  // namespace

std::optional<Straggler> straggler(const Timeline& timeline, int step) {
  const StepWindow* window = timeline.find_step(step);
  if (!window) return std::nullopt;
  Collectives all;
  for (const auto& rank : timeline.ranks()) add_entries(timeline, *rank, *window, all);
  std::optional<Straggler> latest;
  for (auto& [collective, found] : all) {
    auto& entries = found.entries;
    if (static_cast<int>(entries.size()) != found.group_size) continue;
    const Entry last = *std::ranges::max_element(entries, {}, &Entry::time);
    const Picoseconds late =
        last.time - median(entries, [](const Entry& entry) { return entry.time; });
    if (latest && late <= latest->late) continue;
    const auto& [group, sequence, operation] = collective;
    latest = {.rank = last.rank,
              .operation = operation,
              .group = group,
              .sequence = sequence,
              .late = late};
  }
  const auto length = static_cast<double>(window->end - window->start);
  if (!latest || static_cast<double>(latest->late) < least_late * length) return std::nullopt;
  const auto parts = step_parts(timeline, step);
  std::vector<Picoseconds> computes;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    computes.push_back(parts[i].compute);
    if (timeline.ranks()[i]->rank == latest->rank) latest->compute = parts[i].compute;
  }
  latest->median_compute = median(computes);
  return latest;
}

}  // namespace lockstep
