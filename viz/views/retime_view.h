#pragma once

#include <vector>

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows how long the run's last step would take with other links or other compute, and how its
/// critical path would then spend its time. The user sets the changes with sliders.
class RetimeView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);

  const std::vector<RetimeSlider>& sliders() const { return sliders_; }
  /// The tracks of the sliders, as last drawn.
  const std::vector<Rect>& tracks() const { return tracks_; }

 private:
  void choose_rank(int rank);
  void draw_sliders(const Painter& painter, const Rect& rect);
  void draw_slider(const Painter& painter, const Rect& rect, RetimeSlider& slider);
  /// Lets the user choose a rank or a stage.
  static void choose_number(const Painter& painter, RetimeSlider& slider, float width);
  void draw_times(const Painter& painter, const Rect& rect, const Retiming& retiming);
  void draw_shares(const Painter& painter, const Rect& rect,
                   const Retiming::Results& results) const;

  std::vector<RetimeSlider> sliders_;
  std::vector<Rect> tracks_;
};

}  // namespace lockstep::viz
