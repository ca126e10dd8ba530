#pragma once

#include <string>

#include "viz/data/window/compared_runs.h"
#include "viz/views/button.h"
#include "viz/views/scrolled_rows.h"
#include "viz/views/timeline_view.h"

namespace lockstep::viz {

/// Shows the differences between two runs: their configurations, the metrics of the compared steps,
/// each rank's share, and sentences that explain the numbers.
class ComparisonView {
 public:
  static constexpr float bar_height = 50;
  static constexpr float head_height = 26;
  static constexpr float warning_height = 26;

  /// Draws the names of both runs, and the buttons that choose the layout. Returns whether there is
  /// also room for the warning that times cannot be compared, if there is one.
  bool draw_bar(const Painter& painter, const Rect& rect, ComparedRuns& runs) const;
  /// Shows the warning on a separate line.
  void draw_warning(const Painter& painter, const Rect& rect, const ComparedRuns& runs) const;
  /// Draws the name of one run and its step above the run's timeline, and the buttons that choose
  /// the step.
  void draw_head(const Painter& painter, const Rect& rect, ComparedRuns& runs, Side side) const;
  void draw_configurations(const Painter& painter, const Rect& card,
                           const ComparedRuns& runs) const;
  void draw_values(const Painter& painter, const Rect& card, const ComparedRuns& runs) const;
  /// The wheel scrolls if not all ranks fit.
  void draw_ranks(const Painter& painter, const Rect& card, const ComparedRuns& runs);
  void draw_sentences(const Painter& painter, const Rect& card, const ComparedRuns& runs) const;

  /// Marks a card that is about one run with the run's letter, in the middle of its title.
  void draw_letter(const Painter& painter, const Rect& card, Side side) const;

  /// Returns the changes that the comparison makes to the timeline of a run.
  static ComparedTimeline timeline_of(const ComparedRuns& runs, Side side);

 private:
  ScrolledRows rank_rows_;
};

/// Handles the keys of the comparison: V, X, and the page keys.
void take_comparison_keys(ComparedRuns& runs);

}  // namespace lockstep::viz
