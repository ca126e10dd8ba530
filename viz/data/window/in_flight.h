#pragma once

#include <string>
#include <vector>

#include "viz/data/layout/viewport.h"
#include "viz/read/timeline/pipeline_analysis.h"

namespace lockstep::viz {

struct Model;

/// The microbatches in flight on one rank in the steps that are in view, each step's changes in
/// order of time. Steps that are not analysed yet are missing.
struct InFlightRank {
  std::vector<std::vector<InFlight>> steps;
  int most = 0;    ///< at any time in these steps
  int chunks = 0;  ///< the most of a rank in these steps; see most_chunks()
};

/// Returns one entry per rank of the timeline, or nothing if no step in view is a pipeline's.
std::vector<InFlightRank> in_flight_in_view(Model& model);

/// Names what InFlight counts on ranks with up to `chunks` chunks: "microbatches in flight", or
/// "microbatch × chunk in flight".
std::string in_flight_words(int chunks);

/// Returns the number of microbatches in flight over a window, one column per pixel: the highest in
/// the column, or -1 if no step runs there. A step runs from its first to its last change.
std::vector<int> in_flight_columns(const InFlightRank& rank, const TimeWindow& window,
                                   std::size_t pixels);

}  // namespace lockstep::viz
