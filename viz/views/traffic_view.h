#pragma once

#include "viz/data/step/traffic_matrix.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows the bytes that the ranks send to one another in the completed step in view: a matrix of
/// ranks, and beside it the sums by group and operation or, for the cell under the cursor, its
/// terms.
class TrafficView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);
  const TrafficMatrix& matrix() const { return matrix_; }
  /// Returns the centre of a cell on the screen, if the ranks at these indices are shown.
  std::optional<ImVec2> centre_of(std::size_t from, std::size_t to) const;
  /// The explanation last drawn beside the matrix.
  const std::vector<std::string>& explanation() const { return explanation_; }

 private:
  void refresh(const Model& model);
  /// Returns sender and receiver of the cell under the cursor.
  std::optional<std::pair<int, int>> draw_cells(const Painter& painter);

  StepKey analysed_;
  TrafficMatrix matrix_;
  Rect cells_;             ///< on the screen
  float cell_ = 0;         ///< width and height of a cell
  std::size_t shown_ = 0;  ///< the number of ranks that fit
  std::vector<std::string> explanation_;
};

}  // namespace lockstep::viz
