#pragma once

#include "viz/data/in_flight.h"
#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Plots each rank's memory over the time window, stacked by category, with each rank's peaks
/// in the step in view (a number) and in the run (a dashed line). All ranks share one scale. For a
/// pipeline, a line shows the number of microbatches in flight (of pairs with chunks, if a rank has
/// several), from whose forward passes the activations are.
class MemoryView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model);

 private:
  /// A rank's peaks in the step in view.
  struct Peak {
    std::int64_t bytes = 0;
    int in_flight = 0;  ///< see InFlight
  };

  void refresh(Model& model);
  void draw_rank(const Painter& painter, const Rect& rect, const RankTimeline& rank,
                 const TimeWindow& window, double top, const InFlightRank* in_flight, int most,
                 const Peak& peak) const;
  void draw_in_flight(const Painter& painter, const Rect& plot, const std::vector<int>& columns,
                      int most) const;
  /// Returns the bottom of the legend, which may take two lines.
  float draw_legend(const Painter& painter, const Rect& rect, int most_in_flight, int chunks) const;

  StepKey analysed_;
  bool explained_ = false;   ///< whether the step's microbatches were known
  std::vector<Peak> peaks_;  ///< by rank
};

}  // namespace lockstep::viz
