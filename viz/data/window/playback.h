#pragma once

#include "viz/data/layout/viewport.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// Plays a run back: a cursor moves through the run, and everything after the cursor is hidden, as
/// if the run were just executing. The run itself is not slowed; a live run continues to arrive
/// behind the cursor.
class Playback {
 public:
  bool active() const { return active_; }
  bool playing() const { return active_ && playing_; }
  double cursor() const { return cursor_; }
  /// Returns the speed: picoseconds of the run per second of watching.
  double speed() const { return speed_; }

  /// Starts at the beginning of the window, pauses, or continues. A live run that is followed
  /// pauses at its latest time. At the end of the run, starts again.
  void toggle(const Timeline& timeline, const Viewport& viewport);
  /// Moves the cursor; starts a playback that is paused, if there is none.
  void scrub(const Timeline& timeline, double time);
  /// Doubles (1) or halves (-1) the speed.
  void change_speed(int by);
  /// Takes the state of another playback: at `to` when the other is at `from`, and `scale` times as
  /// fast.
  void mirror(const Playback& other, double from, double to, double scale) {
    *this = other;
    cursor_ = to + scale * (other.cursor_ - from);
    speed_ *= scale;
  }
  /// Ends the playback, so that the whole run is shown.
  void stop() { active_ = playing_ = false; }

  /// Moves the cursor as far as it moves in `seconds` seconds, and the window if the cursor leaves
  /// it.
  void advance(const Timeline& timeline, Viewport& viewport, double seconds);

 private:
  void choose_speed(const Timeline& timeline);

  bool active_ = false;
  bool playing_ = false;
  double cursor_ = 0;
  double speed_ = 0;  ///< 0: not chosen yet
};

}  // namespace lockstep::viz
