#pragma once

#include <string>
#include <vector>

#include "viz/data/series.h"

namespace lockstep::viz {

/// What a run's trace contains, as far as it decides which panels have something to show.
struct RunContents {
  bool pipeline = false;       ///< more than one stage
  bool computation = false;    ///< forward and backward passes, or kernels
  bool communication = false;  ///< messages or collectives
  bool loss = false;
  bool memory = false;
};

/// Reads the run's description and the first spans of each lane, so that it is fast enough for
/// every frame.
RunContents contents_of(const Timeline& timeline);

enum class Panel {
  bubble,         ///< of a pipeline
  communication,  ///< its overlap with compute, of all other runs
  loss,
  memory,
  what_if,  ///< of a pipeline
  traffic,
};

/// Returns the panels for a run, from left to right. The last one of a pipeline that communicates
/// is either the what-if simulation or the traffic, because there is no room for both.
std::vector<Panel> panels_for(const RunContents& contents, bool traffic = false);

/// Explains a step's bubble in sentences: the idle time, the internal bubble, and the communication
/// between the stages if there is any.
std::vector<std::string> bubble_sentences(const BubbleSeries::Point& point, std::size_t ranks);

/// Explains a step's communication in sentences: how long it takes, and how long compute stalls for
/// it. `point` must have communication.
std::vector<std::string> communication_sentences(const BubbleSeries::Point& point,
                                                 std::size_t ranks);

}  // namespace lockstep::viz
