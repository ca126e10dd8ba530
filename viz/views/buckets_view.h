#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/step/buckets.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows the collectives of data parallelism in the completed step in view, on one rank: a bar for
/// each over the time of the step, divided into the part that compute hides and the part for which
/// compute stalls, and sentences that explain them. The rank is the one under the cursor in the
/// timeline, or else the one selected last, or else the one with the longest exposed communication.
class BucketsView {
 public:
  /// Returns a span of the bucket that was clicked.
  std::optional<Finding> draw(const Painter& painter, const Rect& rect, Model& model);
  const StepBuckets& buckets() const { return buckets_; }
  /// Returns the centre of a bucket's bar on the screen, as drawn last.
  ImVec2 centre_of(std::size_t bucket) const;
  /// The explanation last drawn below the bars.
  const std::vector<std::string>& explanation() const { return explanation_; }

 private:
  enum class Reason { none, hovered, selected, most_exposed };

  void refresh(const Model& model);
  /// Draws the bars and the time axis, and returns the bucket under the cursor.
  std::optional<std::size_t> draw_bars(const Painter& painter);
  void draw_compute(const Painter& painter, const Rect& strip) const;
  void draw_axis(const Painter& painter) const;
  /// Returns the y below the legend.
  float draw_legend(const Painter& painter, const Rect& rect) const;
  /// Draws a box for each of the intervals, except those that end on the last pixel that has been
  /// drawn already.
  void draw_intervals(const Painter& painter, const Intervals& intervals, float top, float bottom,
                      ImU32 colour, float& drawn) const;
  float x_of(Picoseconds time) const;
  std::size_t row_of(std::size_t bucket) const { return bucket * rows_ / buckets_.buckets.size(); }

  StepKey analysed_;
  StepAccount account_;
  const RankAccount* most_exposed_ = nullptr;  ///< in it
  std::chrono::steady_clock::time_point again_from_{};
  bool all_alike_ = false;  ///< whether all ranks are equally exposed
  int selected_ = -1;       ///< the rank selected last
  Reason reason_ = Reason::none;
  StepBuckets buckets_;
  std::vector<std::string> sentences_;  ///< about them
  Rect bars_;                           ///< on the screen
  std::size_t rows_ = 1;
  float row_height_ = 0;
  std::vector<std::string> explanation_;
};

}  // namespace lockstep::viz
