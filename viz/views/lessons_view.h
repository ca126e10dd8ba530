#pragma once

#include "viz/data/lab/lab_bench.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Starts, stops and restarts lessons: a list of those that are built, and a control for each flag
/// that the chosen one declares.
class LessonsView {
 public:
  /// `piped`: the viewer reads a pipe, so it can't listen.
  void draw(const Painter& painter, const Rect& rect, LabBench& lab, bool piped);

 private:
  void draw_flags(LabBench& lab);
};

/// Draws the buttons that stop or restart a lesson, and its status, for any screen.
void draw_lesson_buttons(const Painter& painter, const Rect& rect, LabBench& lab, bool piped);

}  // namespace lockstep::viz
