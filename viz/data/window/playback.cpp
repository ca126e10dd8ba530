#include "viz/data/window/playback.h"

#include <algorithm>
#include <cmath>

namespace lockstep::viz {
namespace {

constexpr double step_seconds = 6;  // at the first speed, a step takes about this long
constexpr double slowest = 1e3, fastest = 1e14;
constexpr double cursor_place = 0.75;  // of the window's width, when the window moves

}  // namespace

void Playback::choose_speed(const Timeline& timeline) {
  if (speed_ > 0) return;
  const auto whole = static_cast<double>(timeline.end()) - static_cast<double>(timeline.start());
  const auto steps = static_cast<double>(std::max<std::size_t>(timeline.steps().size(), 1));
  // A power of two times one microsecond per second.
  const double wished = std::max(whole / steps / step_seconds, slowest);
  speed_ = std::clamp(1e6 * std::exp2(std::round(std::log2(wished / 1e6))), slowest, fastest);
}

void Playback::toggle(const Timeline& timeline, const Viewport& viewport) {
  choose_speed(timeline);
  const auto start = static_cast<double>(timeline.start());
  const auto end = static_cast<double>(timeline.end());
  if (!active_) {
    active_ = true;
    playing_ = !viewport.following();
    cursor_ = playing_ ? std::clamp(viewport.window().begin, start, end) : end;
  } else if (cursor_ >= end && !playing_) {
    cursor_ = start;
    playing_ = true;
  } else {
    playing_ = !playing_;
  }
}

void Playback::scrub(const Timeline& timeline, double time) {
  choose_speed(timeline);
  active_ = true;
  cursor_ =
      std::clamp(time, static_cast<double>(timeline.start()), static_cast<double>(timeline.end()));
}

void Playback::change_speed(int by) {
  speed_ = std::clamp(speed_ * std::exp2(by), slowest, fastest);
}

void Playback::advance(const Timeline& timeline, Viewport& viewport, double seconds) {
  if (!playing()) return;
  cursor_ += speed_ * seconds;
  const auto end = static_cast<double>(timeline.end());
  if (cursor_ >= end) {
    cursor_ = end;
    // A live run continues as soon as more data arrives.
    if (timeline.ended() || timeline.run().ranks == 0) playing_ = false;
  }
  const TimeWindow& window = viewport.window();
  if (cursor_ < window.begin || cursor_ > window.begin + 0.95 * window.width()) {
    const double begin = cursor_ - cursor_place * window.width();
    viewport.go_to({begin, begin + window.width()});
  }
}

}  // namespace lockstep::viz
