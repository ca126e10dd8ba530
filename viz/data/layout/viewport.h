#pragma once

#include <algorithm>

#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// A visible time window, in picoseconds. Times are doubles because zoom factors are real numbers;
/// whole picoseconds are exact up to two and a half hours.
struct TimeWindow {
  double begin = 0;
  double end = 1;
  double width() const { return end - begin; }
  bool operator==(const TimeWindow&) const = default;
};

/// The time window of the timeline: zoomed and panned by the user, or following a live run.
class Viewport {
 public:
  const TimeWindow& window() const { return window_; }
  bool following() const { return following_; }
  /// Returns whether the window is still gliding to its target.
  bool moving() const { return !(window_ == target_); }

  /// Starts gliding to a window.
  void go_to(const TimeWindow& window);
  /// Shows the entire timeline, with a margin.
  void fit(const Timeline& timeline);
  /// Shows steps `first` to `last` (indices into timeline.steps()).
  void fit_steps(const Timeline& timeline, std::size_t first, std::size_t last);
  /// Returns the index of the step in the middle of the window, or 0 if there are none.
  std::size_t step_in_view(const Timeline& timeline) const;
  /// Goes to the next (+1) or previous (-1) step.
  void go_by_steps(const Timeline& timeline, int by);

  /// Scales the width of the window by `factor` around time `at`. Stops following.
  void zoom(double factor, double at);
  /// Moves by `share` of the window width. Stops following.
  void pan(double share);
  /// Moves just far enough to show `time`, at once. Stops following.
  void show(double time);
  void follow(bool on) { following_ = on; }
  /// Shows the same window as another viewport, with the other's time `from` at `to`, and with
  /// `scale` times its width.
  void mirror(const Viewport& other, double from, double to, double scale);

  /// Advances to the next frame, `seconds` after the previous one: follows the run, glides to the
  /// target, or (`at_once`) jumps there.
  void advance(const Timeline& timeline, double seconds, bool at_once = false);

  /// Returns the window that follows a live run: about the last three steps, up to the present.
  static TimeWindow latest(const Timeline& timeline);

 private:
  TimeWindow window_, target_;
  bool following_ = false;
};

}  // namespace lockstep::viz
