#pragma once

#include <optional>

#include "viz/data/step/stall_picture.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows which rank waits for which in a run that has stalled: the ranks on a grid, an arrow from
/// each rank to those that it waits for, the sentence that names the awaited ranks and, if there is
/// room, a table of the process groups. While the cursor is on a rank, only its arrows are drawn.
class StallView {
 public:
  void draw(const Painter& painter, const Rect& rect, const StallPicture& picture);
  /// Returns the centre of a rank's box on the screen, by position in StallPicture::nodes.
  ImVec2 centre_of(std::size_t node) const { return centres_.at(node); }
  /// Returns the number of arrows' labels that were drawn.
  std::size_t labels() const { return labels_.size(); }

 private:
  void place_nodes(const Painter& painter, const Rect& rect, const StallPicture& picture);
  void draw_picture(const Painter& painter, const Rect& rect, const StallPicture& picture);
  void draw_names(const Painter& painter, const StallPicture& picture) const;
  void draw_arrow(const Painter& painter, const StallPicture& picture, const StallArrow& arrow,
                  bool strong);
  /// Draws a label on its arrow unless it would cover a box or another label. Returns whether it
  /// drew it.
  bool draw_label(const Painter& painter, ImVec2 at, const std::string& label);
  void draw_node(const Painter& painter, const StallPicture& picture, std::size_t node,
                 bool faint) const;
  void draw_legend(const Painter& painter, const Rect& rect, const StallPicture& picture) const;
  void draw_table(const Painter& painter, const Rect& rect, const StallPicture& picture) const;
  std::optional<std::size_t> hovered() const;
  Rect box_of(std::size_t node) const;

  std::vector<ImVec2> centres_;
  ImVec2 box_{};  ///< width and height of a rank's box
  Rect grid_;
  std::vector<Rect> labels_;  ///< drawn in this frame; no two overlap
};

}  // namespace lockstep::viz
