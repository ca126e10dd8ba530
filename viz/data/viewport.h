#pragma once

#include <algorithm>

#include "core/trace/timeline.h"

namespace lockstep::viz {

/// A stretch of time on the screen, in picoseconds. Double, since zooming is by factors; exact for
/// two and a half hours.
struct TimeWindow {
  double begin = 0;
  double end = 1;
  double width() const { return end - begin; }
  bool operator==(const TimeWindow&) const = default;
};

/// Which time the timeline shows: zoomed and panned by hand, or following a live run.
class Viewport {
 public:
  const TimeWindow& window() const { return window_; }
  bool following() const { return following_; }
  /// Still gliding to where it is going.
  bool moving() const { return !(window_ == target_); }

  /// Goes to a window, gliding.
  void go_to(const TimeWindow& window);
  /// Everything that there is, with a margin.
  void fit(const Timeline& timeline);
  /// Steps `first` to `last` (indices into timeline.steps()).
  void fit_steps(const Timeline& timeline, std::size_t first, std::size_t last);
  /// The index of the step in the middle of the window; 0 where there is none.
  std::size_t step_in_view(const Timeline& timeline) const;
  /// The next (+1) or previous (-1) step.
  void go_by_steps(const Timeline& timeline, int by);

  /// Makes the window `factor` times as wide, keeping time `at` where it is. Ends following.
  void zoom(double factor, double at);
  /// Moves by a share of the window. Ends following.
  void pan(double share);
  void follow(bool on) { following_ = on; }

  /// The next frame, `seconds` after the last: follows, glides, or (`at_once`) jumps.
  void advance(const Timeline& timeline, double seconds, bool at_once = false);

  /// What a live run is followed with: about the last three steps, up to now.
  static TimeWindow latest(const Timeline& timeline);

 private:
  TimeWindow window_, target_;
  bool following_ = false;
};

}  // namespace lockstep::viz
