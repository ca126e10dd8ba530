#pragma once

#include <optional>

#include "viz/data/lab/lab_bench.h"
#include "viz/data/window/model.h"
#include "viz/views/board_view.h"
#include "viz/views/help_view.h"
#include "viz/views/lessons_view.h"
#include "viz/views/timeline_view.h"

namespace lockstep::viz {

/// The lab: schedules on sliders, a board, and lessons to start. The run on the timeline stays
/// open; ViewState::lab says which of the two screens is shown.
class LabScreen {
 public:
  void draw(LabBench& lab, Model& model, const Look& look);
  bool keys_held() const { return timeline_.keys_held(); }
  bool growing() const { return timeline_.growing(); }
  const BoardView& board() const { return board_; }

 private:
  void draw_bar(const Painter& painter, const Rect& rect, LabBench& lab, Model& model);
  void draw_schedules(const Painter& painter, const Rect& rect, LabBench& lab);
  void draw_shown(const Painter& painter, const Rect& rect, LabBench& lab, std::size_t which);
  void draw_lessons(const Painter& painter, const Rect& rect, LabBench& lab, Model& model);

  BoardView board_;
  LessonsView lessons_;
  TimelineView timeline_;
  HelpView help_;
  bool shows_timeline_ = false;  ///< whether the page of lessons does
};

}  // namespace lockstep::viz
