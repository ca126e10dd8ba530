#include "core/time/fit.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace lockstep {

namespace {

/// Seconds: alpha + beta n, with n in units of the largest message, so that all sums have similar
/// magnitudes.
struct Line {
  double alpha = 0;
  double beta = 0;
  double at(double n) const { return alpha + beta * n; }
};

/// Returns the nonnegative line that minimizes Σ ((line - t) / expected)².
template <class Expected>
Line fit_once(std::span<const MessageTime> times, double largest, Expected expected) {
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;
  for (const MessageTime& time : times) {
    const double n = static_cast<double>(time.bytes) / largest;
    // A line through 0 predicts 0 s for 0 B; the lower bound keeps the weight finite.
    const double scale = std::max(expected(n, time.seconds), 1e-3 * time.seconds);
    const double weight = 1 / (scale * scale);
    w += weight;
    wn += weight * n;
    wnn += weight * n * n;
    wt += weight * time.seconds;
    wnt += weight * n * time.seconds;
  }
  const double determinant = w * wnn - wn * wn;
  const Line line{(wnn * wt - wn * wnt) / determinant, (w * wnt - wn * wt) / determinant};
  if (line.alpha < 0) return {0, wnt / wnn};
  if (line.beta < 0) return {wt / w, 0};
  return line;
}

}  // namespace

Link fit_link(std::span<const MessageTime> times) {
  const bool usable = std::ranges::all_of(
      times, [](const MessageTime& t) { return t.bytes >= 0 && t.seconds > 0; });
  const bool two_sizes = std::ranges::any_of(
      times, [&](const MessageTime& t) { return t.bytes != times.front().bytes; });
  if (!usable || !two_sizes)
    throw std::invalid_argument("fit_link: wants positive times of at least two different sizes");

  const auto largest = static_cast<double>(std::ranges::max(times, {}, &MessageTime::bytes).bytes);
  Line line = fit_once(times, largest, [](double, double seconds) { return seconds; });
  for (int again = 0; again < 100; ++again)
    line = fit_once(times, largest, [before = line](double n, double) { return before.at(n); });
  return {
      .latency_seconds = line.alpha,
      .bandwidth = line.beta > 0 ? largest / line.beta : std::numeric_limits<double>::infinity()};
}

}  // namespace lockstep
