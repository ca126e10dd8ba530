#pragma once

#include <optional>

#include "viz/data/step/lab.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows a what-if simulation of the schedule for a chosen number of microbatches, with the run's
/// own times. A button opens the lab with the run's values.
class LabView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);

 private:
  void refresh(const Timeline& timeline);
  void draw_controls(const Painter& painter, const Rect& rect, ViewState& view);
  void draw_schedule(const Painter& painter, const Rect& rect) const;
  void draw_verdict(const Painter& painter, const Rect& rect) const;

  LabQuestion question_;
  std::optional<LabAnswer> answer_;
  std::string run_;       ///< the run that the times come from
  std::string phase_;     ///< its phase
  int looked_at_ = -1;    ///< the step that the times come from
  bool touched_ = false;  ///< whether the user changed a setting; if so, no longer follows the run
};

}  // namespace lockstep::viz
