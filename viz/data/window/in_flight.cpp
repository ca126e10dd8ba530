#include "viz/data/window/in_flight.h"

#include <algorithm>
#include <cmath>

#include "viz/data/window/model.h"

namespace lockstep::viz {

std::vector<InFlightRank> in_flight_in_view(Model& model) {
  std::vector<InFlightRank> ranks;
  const TimeWindow& window = model.viewport.window();
  for (const StepWindow& step : model.timeline.steps()) {
    if (static_cast<double>(step.end) < window.begin ||
        static_cast<double>(step.start) > window.end)
      continue;
    const ExplainedStep* explained = model.explanations.find(model.timeline, step);
    if (!explained) continue;
    // A rank that has arrived since the analysis has no changes.
    const std::size_t known = std::min(explained->in_flight.size(), model.timeline.ranks().size());
    for (std::size_t i = 0; i < known; ++i) {
      ranks.resize(model.timeline.ranks().size());
      if (explained->in_flight[i].empty()) continue;
      for (const InFlight& change : explained->in_flight[i])
        ranks[i].most = std::max(ranks[i].most, change.microbatches);
      ranks[i].chunks = std::max(ranks[i].chunks, explained->chunks);
      ranks[i].steps.push_back(explained->in_flight[i]);
    }
  }
  return ranks;
}

std::string in_flight_words(int chunks) {
  return chunks > 1 ? "microbatch × chunk in flight" : "microbatches in flight";
}

std::vector<int> in_flight_columns(const InFlightRank& rank, const TimeWindow& window,
                                   std::size_t pixels) {
  std::vector<int> columns(pixels, -1);
  const double scale = static_cast<double>(pixels) / std::max(window.width(), 1.0);
  const auto column_of = [&](Picoseconds time) {
    const double column = std::floor((static_cast<double>(time) - window.begin) * scale);
    return std::clamp(column, -1.0, static_cast<double>(pixels));
  };
  for (const auto& changes : rank.steps) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      // The last change, to no microbatches, takes one column.
      const Picoseconds until = changes[std::min(i + 1, changes.size() - 1)].from;
      const double first = column_of(changes[i].from), last = column_of(until);
      if (last < 0 || first >= static_cast<double>(pixels)) continue;
      const auto begin = static_cast<std::size_t>(std::max(first, 0.0));
      const auto end =
          std::min(pixels, std::max(begin + 1, static_cast<std::size_t>(std::max(last, 0.0))));
      for (std::size_t column = begin; column < end; ++column)
        columns[column] = std::max(columns[column], changes[i].microbatches);
    }
  }
  return columns;
}

}  // namespace lockstep::viz
