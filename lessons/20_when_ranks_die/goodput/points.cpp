#include "lessons/20_when_ranks_die/goodput/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lessons/20_when_ranks_die/goodput/durations.h"

namespace lockstep {

namespace {

double largest_difference(const std::vector<Point>& points) {
  double largest = 0;
  for (const Point& point : points)
    if (point.simulated.all.finished) largest = std::max(largest, std::abs(point.difference()));
  return 100 * largest;
}

/// The same points for another request.
std::vector<Point> again(const GoodputRequest& request, std::vector<Point> points) {
  for (Point& point : points)
    point = point_of(request, point.strategy, point.ranks, point.interval);
  return points;
}

}  // namespace

Point point_of(const GoodputRequest& request, Strategy strategy, int ranks, std::int64_t interval) {
  return {strategy,
          ranks,
          interval,
          simulate(request, strategy, ranks, interval),
          predicted(request, strategy, ranks, interval),
          model_for(request, strategy, ranks)
              .first_order(static_cast<double>(interval) * request.step)};
}

std::vector<Point> points_around(const GoodputRequest& request, Strategy strategy, int ranks) {
  std::vector<Point> points;
  const auto best = static_cast<double>(interval_for(request, strategy, ranks));
  for (const double factor : factors) {
    const auto interval = std::max<std::int64_t>(1, std::llround(factor * best));
    if (points.empty() || points.back().interval != interval)
      points.push_back(point_of(request, strategy, ranks, interval));
  }
  return points;
}

std::string comparison(const GoodputRequest& request, std::vector<Point> points) {
  const double difference = largest_difference(points);
  const auto endless = std::ranges::count_if(
      points, [](const Point& point) { return !point.simulated.all.finished; });
  std::string text = fmt::format(
      "Simulation and formula differ by at most {:.1f} %{}.\n", difference,
      endless > 0 ? fmt::format(", without the runs that did not end ({})", endless) : "");
  if (difference <= 2) return text;
  // Restores one assumption after the other, and keeps it.
  GoodputRequest restored = request;
  const auto restore = [&](bool violated, const std::string& assumption) {
    if (!violated) return;
    text += fmt::format("  The formula assumes {}, they differ by at most {:.1f} %.\n", assumption,
                        largest_difference(again(restored, points)));
  };
  const bool other_law = request.every || request.law != Law::exponential;
  restored.law = Law::exponential;
  if (request.every) {
    restored.device_mtbf = law_for(request, 1).mean_seconds() * points.front().ranks;
    restored.every.reset();
  }
  restore(other_law, "exponential times between failures. With these, of the same mean");
  const bool finite = request.steps.has_value();
  restored.steps.reset();
  restored.failures = std::max(request.failures, 20'000);
  restore(!finite && request.failures < 20'000, "many failures. With 20,000");
  restore(finite, "a run of many failures. In one long run");
  const Strategy strategy = points.front().strategy;
  const bool at_once = strategy == Strategy::restart && request.hidden == 0;
  restored.hidden = restored.transfer = 0;
  restore(!at_once && (strategy == Strategy::restart || strategy == Strategy::memory),
          "that a checkpoint can be used at once. Without a delay");
  restored.spares = 1'000'000;
  restore(strategy == Strategy::spares, "that a spare is always there. With a million spares");
  if (strategy == Strategy::memory) {
    restored.checkpoint = restored.snapshot;
    restored.restart = restored.reload;
    for (Point& point : points) point.strategy = Strategy::restart;
    restore(true, "that no failure takes a rank and its peer. If all copies survive");
  }
  return text;
}

}  // namespace lockstep
