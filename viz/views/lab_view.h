#pragma once

#include <optional>

#include "viz/data/lab.h"
#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// What if: one slider, the microbatches, and the schedule that the simulator makes of it, with the
/// run's own times. The only view that knows lessons.
class LabView {
 public:
  void draw(const Painter& painter, const Rect& rect, const Model& model);

 private:
  void refresh(const Timeline& timeline);
  void draw_controls(const Painter& painter, const Rect& rect);
  void draw_schedule(const Painter& painter, const Rect& rect) const;
  void draw_verdict(const Painter& painter, const Rect& rect) const;

  LabQuestion question_;
  std::optional<LabAnswer> answer_;
  std::string run_;       ///< whose times the question has
  std::string phase_;     ///< of that run
  int looked_at_ = -1;    ///< the step that they were taken from
  bool touched_ = false;  ///< by hand: no longer follows the run
};

}  // namespace lockstep::viz
