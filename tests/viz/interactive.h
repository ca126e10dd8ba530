#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/viz/headless.h"
#include "tests/viz/sample_run.h"
#include "viz/read/timeline/reader.h"

namespace lockstep {

/// The viewer's screen in a Dear ImGui context without a window, operated with mouse and keyboard.
/// Each call draws the frames that are needed for the input to take effect.
class Interactive : public Headless {
 public:
  viz::Model model;
  viz::Screen screen;

  explicit Interactive(const SampleRun& run)
      : Interactive([&](Timeline& timeline) { read_sample(sample_traces(run), timeline); }) {}
  /// `fill` adds the spans.
  explicit Interactive(const std::function<void(Timeline&)>& fill) {
    viz::map_keys();
    fill(model.timeline);
    model.timeline.settle();
    model.viewport.fit_steps(model.timeline, 1, 1);
    frame();
    frame();
  }

  virtual ~Interactive() = default;

  virtual void frame() { draw(screen, model, x_, y_); }
  void move(float x, float y) {
    x_ = x;
    y_ = y;
    frame();
    frame();
  }
  void click(float x, float y) { drag(x, y, x, y); }
  void drag(float x0, float y0, float x1, float y1, int button = 0) {
    move(x0, y0);
    viz::set_button(button, true);
    frame();
    if (x0 != x1 || y0 != y1) {
      move((x0 + x1) / 2, (y0 + y1) / 2);
      move(x1, y1);
    }
    viz::set_button(button, false);
    frame();
    frame();
  }
  template <class Key>
  void press(Key key) {
    viz::set_key(key, true);
    frame();
    viz::set_key(key, false);
    frame();
  }
  void type(const std::string& text) {
    for (const char character : text) {
      ImGui::GetIO().AddInputCharacter(static_cast<unsigned char>(character));
      frame();
    }
    frame();
  }
  void wheel(float notches, bool ctrl = false, bool shift = false) {
    viz::set_modifiers(ctrl, shift);
    viz::set_wheel(notches);
    frame();
    viz::set_modifiers(false, false);
    frame();
  }

  /// Returns the x of a time, in a window of 1600 pixels.
  float x_of(Picoseconds time) const {
    const viz::TimeWindow& window = model.viewport.window();
    constexpr double left = viz::TimelineView::names_width;
    constexpr double width = 1600 - left - viz::TimelineView::right_edge;
    return static_cast<float>(left +
                              (static_cast<double>(time) - window.begin) / window.width() * width);
  }
  /// Returns a y on a rank's compute strip: the first at which the cursor finds the rank's lane.
  float y_of(int rank, Picoseconds time) {
    for (float y = 130; y < 640; y += 4) {
      move(x_of(time), y);
      const viz::Finding& found = model.hovered;
      if (found.rank && found.rank->rank == rank && found.lane && found.lane->is_compute())
        return y + 4;
    }
    return -1;
  }
  /// Returns the first pipeline action of a kind.
  TimelineSpan action(int rank, int step, Category category, int microbatch) const {
    for (const TimelineSpan& span :
         model.timeline.find_rank(rank)->compute()->rows(Band::action).front())
      if (span.step == step && span.category == category && span.microbatch == microbatch)
        return span;
    throw std::runtime_error("no such action");
  }
  void click_on(int rank, const TimelineSpan& span) {
    const Picoseconds middle = (span.start + span.end) / 2;
    const float y = y_of(rank, middle);
    click(x_of(middle), y);
  }

 protected:
  float x_ = 0, y_ = 0;
};

}  // namespace lockstep
