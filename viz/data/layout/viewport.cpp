#include "viz/data/layout/viewport.h"

#include <algorithm>
#include <cmath>

namespace lockstep::viz {
namespace {

constexpr double margin = 0.02;         // of the window width, on both sides
constexpr double followed_steps = 3;    // steps shown by a live view
constexpr double glide_seconds = 0.06;  // a glide's time constant
constexpr double arrived = 1e-3;        // of the window width: distance at which a glide ends
constexpr double narrowest = 100;       // picoseconds
constexpr double widest = 1e19;
constexpr double farthest = 1e19;   // largest distance of the window's middle from 0
constexpr double finest = 0x1p-38;  // smallest width, relative to that distance

/// Returns the window, changed if necessary so that its pixels are distinct when stored as doubles.
TimeWindow resolvable(const TimeWindow& window) {
  const double middle = std::clamp((window.begin + window.end) / 2, -farthest, farthest);
  const double least = std::max(narrowest, finest * std::abs(middle));
  if (window.width() >= least && window.width() <= widest && std::abs(middle) < farthest)
    return window;
  const double half = std::clamp(window.width(), least, widest) / 2;
  return {middle - half, middle + half};
}

TimeWindow with_margin(double begin, double end) {
  const double width = std::max(end - begin, narrowest);
  return {begin - margin * width, begin + (1 + margin) * width};
}

}  // namespace

void Viewport::go_to(const TimeWindow& window) {
  following_ = false;
  target_ = resolvable(window);
}

void Viewport::fit(const Timeline& timeline) {
  go_to(with_margin(static_cast<double>(timeline.start()), static_cast<double>(timeline.end())));
}

void Viewport::fit_steps(const Timeline& timeline, std::size_t first, std::size_t last) {
  const auto& steps = timeline.steps();
  if (steps.empty()) return fit(timeline);
  first = std::min(first, steps.size() - 1);
  last = std::clamp(last, first, steps.size() - 1);
  go_to(with_margin(static_cast<double>(steps[first].start), static_cast<double>(steps[last].end)));
}

std::size_t Viewport::step_in_view(const Timeline& timeline) const {
  const double middle = (target_.begin + target_.end) / 2;
  const auto& steps = timeline.steps();
  auto after = std::partition_point(steps.begin(), steps.end(), [&](const StepWindow& step) {
    return static_cast<double>(step.start) <= middle;
  });
  return after == steps.begin() ? 0 : static_cast<std::size_t>(after - steps.begin()) - 1;
}

void Viewport::go_by_steps(const Timeline& timeline, int by) {
  const auto count = static_cast<std::ptrdiff_t>(timeline.steps().size());
  if (count == 0) return;
  const auto now = static_cast<std::ptrdiff_t>(step_in_view(timeline));
  const auto to = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(now + by, 0, count - 1));
  fit_steps(timeline, to, to);
}

void Viewport::zoom(double factor, double at) {
  const double width = std::clamp(target_.width() * factor, narrowest, widest);
  const double share = (at - target_.begin) / target_.width();
  go_to({at - share * width, at + (1 - share) * width});
}

void Viewport::pan(double share) {
  const double by = share * target_.width();
  go_to({target_.begin + by, target_.end + by});
  window_ = resolvable(
      {window_.begin + by, window_.end + by});  // no glide: the dragged point follows the cursor
}

void Viewport::show(double time) {
  const double by = std::min(time - target_.begin, 0.0) + std::max(time - target_.end, 0.0);
  go_to({target_.begin + by, target_.end + by});
  window_ = target_;
}

void Viewport::mirror(const Viewport& other, double from, double to, double scale) {
  const auto same = [&](const TimeWindow& window) {
    return resolvable({to + scale * (window.begin - from), to + scale * (window.end - from)});
  };
  following_ = false;
  window_ = same(other.window_);
  target_ = same(other.target_);
}

TimeWindow Viewport::latest(const Timeline& timeline) {
  const auto& steps = timeline.steps();
  const auto begin = static_cast<double>(timeline.start());
  const auto end = static_cast<double>(timeline.end());
  // The length of a step: the mean distance between the starts of the last few steps.
  const std::size_t known = steps.size();
  if (known < 3 || timeline.ended()) {
    const std::size_t first = known > 3 ? known - 3 : 0;
    return with_margin(known > 3 ? static_cast<double>(steps[first].start) : begin, end);
  }
  const std::size_t from = known > 5 ? known - 5 : 0;
  const double length = static_cast<double>(steps.back().start - steps[from].start) /
                        static_cast<double>(known - 1 - from);
  const double width = followed_steps * std::max(length, narrowest);
  return {end - (1 - margin) * width, end + margin * width};
}

void Viewport::advance(const Timeline& timeline, double seconds, bool at_once) {
  if (following_ && !timeline.empty()) {
    target_ = resolvable(latest(timeline));
    // New events appear at the right edge, so keep it fixed and let only the width glide.
    const double width = window_.width();
    window_ = {target_.end - width, target_.end};
  }
  if (!moving()) return;
  if (at_once) {
    window_ = target_;
    return;
  }
  const double share = 1 - std::exp(-seconds / glide_seconds);
  window_.begin += share * (target_.begin - window_.begin);
  window_.end += share * (target_.end - window_.end);
  // A glide that crosses distant times rounds both ends, perhaps to the same number.
  window_ = resolvable(window_);
  const double near = arrived * target_.width();
  if (std::abs(window_.begin - target_.begin) + std::abs(window_.end - target_.end) < near) {
    window_ = target_;
  }
}

}  // namespace lockstep::viz
