#pragma once

#include "viz/views/draw.h"

namespace lockstep::viz {

/// A curved arrow from one box towards the centre of another, drawn between the boxes' edges.
class CurvedArrow {
 public:
  /// `bend` is the distance of the curve's control point from the straight line, as a share of the
  /// line's length.
  CurvedArrow(const Rect& from, const Rect& to, float bend);

  /// Returns whether any part of the arrow is outside both boxes.
  bool visible() const { return begin_ < end_; }
  /// Returns a point of the visible part: 0 is its beginning, and 1 its tip.
  ImVec2 at(float share) const { return on_curve(begin_ + (end_ - begin_) * share); }
  void draw(const Painter& painter, ImU32 colour) const;

 private:
  ImVec2 on_curve(float t) const;
  /// Returns the t of the curve's intersection with the edge of a box, by bisection between a t
  /// inside the box and one outside.
  float edge(const Rect& box, float inside, float outside) const;

  ImVec2 from_, control_, to_;  ///< of a quadratic Bézier curve
  float begin_ = 0, end_ = 1;
};

}  // namespace lockstep::viz
