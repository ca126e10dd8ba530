#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/data/step/rings.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows one collective of the step in view that ran as a ring: its ranks in ring order on a
/// circle, the messages from each to the next, and the ring's steps. It is the collective under the
/// cursor in the timeline, or else the one chosen from the list, at first the longest.
class RingsView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);
  /// Chooses the collective that was selected in the timeline, if it ran as a ring. Call this in
  /// every frame, because a selection may cover this view.
  void follow_selection(const Model& model);
  /// All rings of the step, the longest first.
  const std::vector<RingCollective>& collectives() const { return collectives_; }
  const std::optional<Ring>& ring() const { return ring_; }
  /// The explanation last drawn beside the ring.
  const std::vector<std::string>& explanation() const { return explanation_; }
  /// Returns the middle of a link on the screen.
  ImVec2 middle_of(std::size_t link) const;
  /// Returns a point on the screen in the bar of the ring's step i.
  ImVec2 step_bar(std::size_t i) const;
  /// The number of ranks whose numbers were drawn.
  std::size_t labels() const { return labels_; }

 private:
  void refresh(const Model& model);
  /// Returns the collective that a span belongs to.
  const RingCollective* collective_of(int rank, const TimelineSpan& span) const;
  void draw_list(const Painter& painter, const Rect& rect, const Model& model);
  /// Draws the ranks and links; returns the link under the cursor.
  std::optional<std::size_t> draw_circle(const Painter& painter, const Rect& rect,
                                         std::optional<std::size_t> step);
  /// Draws the steps; returns the one under the cursor.
  std::optional<std::size_t> draw_steps(const Painter& painter, const Rect& rect);
  ImVec2 place_of(double rank) const;

  std::string run_;
  int step_ = -2;
  int rings_step_ = -2;      ///< -1 if the step has no rings, but the time outside of steps has
  std::int64_t spans_ = -1;  ///< in the trace, if it has no steps
  std::vector<RingCollective> collectives_;
  std::optional<RingCollective> chosen_;
  std::optional<Ring> ring_;
  ImVec2 centre_{};
  float radius_ = 0;
  Rect steps_;
  float list_bottom_ = 0;
  std::size_t labels_ = 0;
  std::vector<std::string> explanation_;
};

}  // namespace lockstep::viz
