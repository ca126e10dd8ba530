#pragma once

#include "viz/data/window/in_flight.h"
#include "viz/data/window/model.h"
#include "viz/views/draw.h"
#include "viz/views/scrolled_rows.h"

namespace lockstep::viz {

/// Plots each rank's memory over the time window, stacked by category, with each rank's peaks in
/// the step in view (a number) and in the run (a dashed line). All ranks share one scale. For a
/// pipeline, a line shows the number of microbatches in flight, whose forward passes produced the
/// activations; if a rank has several chunks, it counts pairs of a microbatch and a chunk. A
/// tooltip says which kinds of tensors and layers fill the memory: at the cursor's time on a rank's
/// plot, and at the step's peak beside it. The wheel scrolls if not all ranks fit.
class MemoryView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);
  /// Draws the contents of the memory under the cursor, if the cursor is on a rank's row.
  void draw_tooltip(const Painter& painter) const;
  /// The lines of the tooltip in this frame; empty if there is none.
  const std::vector<std::string>& tip() const { return tip_; }
  /// Returns whether the wheel scrolled the ranks in this frame.
  bool scrolled() const { return rows_.scrolled(); }
  /// The first rank shown, by its position in the timeline, and the number of ranks shown.
  std::size_t first() const { return rows_.first(); }
  std::size_t shown() const { return shown_; }

 private:
  /// A rank's peaks in the step in view.
  struct Peak {
    std::int64_t bytes = 0;
    int in_flight = 0;  ///< see InFlight
  };

  void refresh(Model& model);
  /// Sets the tooltip's text if the cursor is on the rank's row.
  void look_under_cursor(const Painter& painter, const Rect& row, const RankTimeline& rank,
                         const Model& model);
  void draw_rank(const Painter& painter, const Rect& rect, const RankTimeline& rank,
                 const TimeWindow& window, double top, const InFlightRank* in_flight, int most,
                 const Peak& peak) const;
  void draw_in_flight(const Painter& painter, const Rect& plot, const std::vector<int>& columns,
                      int most) const;
  /// Returns the bottom of the legend, which may take two lines.
  float draw_legend(const Painter& painter, const Rect& rect, int most_in_flight, int chunks) const;

  ScrolledRows rows_;
  std::size_t shown_ = 0;
  StepKey analysed_;
  bool explained_ = false;   ///< whether the step's microbatches were known
  std::vector<Peak> peaks_;  ///< by rank
  std::vector<std::string> tip_;
  Rect tip_row_;  ///< the row that it describes
};

}  // namespace lockstep::viz
