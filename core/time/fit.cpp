#include "core/time/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace lockstep {

namespace {

/// The line alpha + beta n, in seconds, for a message of size n.
struct FittedLine {
  double alpha = 0;
  double beta = 0;
  double at(double n) const { return alpha + beta * n; }
};

/// Returns the nonnegative line that minimizes Σ ((line - t) / expected)². Here n is in units of
/// the largest message, so that the sums in the solution have similar magnitudes.
template <class Expected>
FittedLine fit_once(std::span<const MessageTime> times, double largest, Expected expected) {
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
  const FittedLine line{(wnn * wt - wn * wnt) / determinant, (w * wnt - wn * wt) / determinant};
  if (line.alpha < 0) return {0, wnt / wnn};
  if (line.beta < 0) return {wt / w, 0};
  return line;
}

void check_times(std::span<const MessageTime> times) {
  const bool usable = std::ranges::all_of(
      times, [](const MessageTime& t) { return t.bytes >= 0 && t.seconds > 0; });
  const bool two_sizes = std::ranges::any_of(
      times, [&](const MessageTime& t) { return t.bytes != times.front().bytes; });
  if (!usable || !two_sizes)
    throw std::invalid_argument(
        "fitting a link needs positive times for at least two different sizes");
}

/// Returns the minimizer of a convex function on [0, most], found by ternary search.
template <class Function>
double minimizer(double most, Function function) {
  double low = 0, high = most;
  for (int again = 0; again < 80; ++again) {
    const double third = (high - low) / 3;
    if (function(low + third) < function(high - third))
      high -= third;
    else
      low += third;
  }
  return (low + high) / 2;
}

/// Returns the nonnegative line, with n in bytes, that minimizes the largest relative error.
/// `times` must be sorted by size. This error is convex in (α, β), and its minimum over α is convex
/// in β.
FittedLine fit_largest_error(std::span<const MessageTime> times) {
  const auto error = [&](const FittedLine& line) {
    double largest = 0;
    for (const auto& [bytes, seconds] : times)
      largest = std::max(largest, std::abs(line.at(static_cast<double>(bytes)) / seconds - 1));
    return largest;
  };
  double longest = 0, steepest = 0;
  for (const auto& [bytes, seconds] : times) {
    longest = std::max(longest, seconds);
    if (bytes > 0) steepest = std::max(steepest, seconds / static_cast<double>(bytes));
  }
  const auto best_alpha = [&](double beta) {
    return minimizer(2 * longest, [&](double alpha) { return error({alpha, beta}); });
  };
  const double beta = minimizer(2 * steepest, [&](double each) {
    return error({best_alpha(each), each});
  });
  const auto zero_if_tiny = [&](double part) { return part < 1e-9 * longest ? 0 : part; };
  const auto bytes = static_cast<double>(times.back().bytes);
  return {zero_if_tiny(best_alpha(beta)), zero_if_tiny(beta * bytes) / bytes};
}

/// Returns the line through one point, with n in bytes, that has the given α. If the measured time
/// is less than the given α, the line's α is the measured time.
FittedLine line_through(const MessageTime& time, double alpha) {
  alpha = std::min(alpha, time.seconds);
  return {alpha, time.bytes > 0 ? (time.seconds - alpha) / static_cast<double>(time.bytes) : 0};
}

}  // namespace

Link fit_link(std::span<const MessageTime> times) {
  check_times(times);
  const auto largest = static_cast<double>(std::ranges::max(times, {}, &MessageTime::bytes).bytes);
  FittedLine line = fit_once(times, largest, [](double, double seconds) { return seconds; });
  for (int again = 0; again < 100; ++again)
    line = fit_once(times, largest, [before = line](double n, double) { return before.at(n); });
  return {
      .latency_seconds = line.alpha,
      .bandwidth = line.beta > 0 ? largest / line.beta : std::numeric_limits<double>::infinity()};
}

Link fit_segments(std::vector<MessageTime> times, double bound) {
  check_times(times);
  std::ranges::sort(times, {}, &MessageTime::bytes);
  if (!(bound >= 0) || std::ranges::adjacent_find(times, {}, &MessageTime::bytes) != times.end())
    throw std::invalid_argument("fit_segments: needs each size once and a bound of at least 0");

  Link link;
  double alpha = times.front().seconds;  // α of the previous segment
  for (std::size_t first = 0, next = 0; first < times.size(); first = next) {
    Link::Segment best;
    for (next = first; next < times.size(); ++next) {
      const std::span taken{times.data() + first, next + 1 - first};
      const FittedLine line =
          taken.size() > 1 ? fit_largest_error(taken) : line_through(taken.front(), alpha);
      const Link alone{line.alpha, 1 / line.beta};
      if (taken.size() > 1 && largest_error(alone, taken) > bound) break;
      best = {times[first].bytes, alone.latency_seconds, alone.bandwidth};
    }
    alpha = best.latency_seconds;
    if (first > 0) {
      link.segments.push_back(best);
    } else {
      link.latency_seconds = best.latency_seconds;
      link.bandwidth = best.bandwidth;
    }
  }
  return link;
}

double time_of_message(const Link& link, std::int64_t bytes) {
  const Link::Segment segment = link.at(bytes);
  return segment.latency_seconds + static_cast<double>(bytes) / segment.bandwidth;
}

double largest_error(const Link& link, std::span<const MessageTime> times) {
  double largest = 0;
  for (const auto& [bytes, seconds] : times)
    largest = std::max(largest, std::abs(time_of_message(link, bytes) / seconds - 1));
  return largest;
}

}  // namespace lockstep
