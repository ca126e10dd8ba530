#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/data/layout/plan_layout.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

struct Model;

/// The run's plan: its nodes as boxes, with their ranks in the colour of their coordinate on an
/// axis that the user chooses. Under the cursor, a rank's group on this axis stands out.
class PlanView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);
  /// The rank under the cursor, and the panel's sentences, for tests.
  std::optional<int> hovered() const { return hovered_; }
  const std::vector<std::string>& explanation() const { return explanation_; }
  Axis axis() const { return axis_; }
  /// The cell of a rank in the last frame.
  Rect cell_of(int rank) const;

 private:
  void refresh(const RunInfo& run);
  void draw_nodes(const Painter& painter, const Rect& rect);
  void draw_rank(const Painter& painter, const Rect& cell, int rank, bool stands_out) const;

  RunInfo run_;  ///< the run that the layout belongs to
  PlanLayout layout_;
  Axis axis_ = Axis::tp;
  std::optional<int> hovered_;
  std::vector<int> group_;   ///< of the rank under the cursor
  std::vector<Rect> cells_;  ///< by rank
  std::vector<std::string> explanation_;
};

}  // namespace lockstep::viz
