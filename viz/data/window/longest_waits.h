#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/data/selection/causes.h"
#include "viz/data/window/model.h"

namespace lockstep::viz {

/// A part of a wait in a step, with one cause.
struct LongWait {
  int rank = -1;  ///< the one that waits
  StepPiece piece;
  std::string axis;            ///< of the piece, if it is exposed communication
  std::optional<int> awaited;  ///< the rank that it waits for, if the trace shows it

  Picoseconds duration() const { return piece.time.end - piece.time.start; }
  /// Returns the idle time on the rank's compute lane; nothing if the timeline has no such lane.
  std::optional<Finding> place(const Timeline& timeline) const;
};

/// Returns the longest parts of the waits in a step, the longest first; of equally long ones, the
/// earliest first.
std::vector<LongWait> longest_waits(const Timeline& timeline, const ExplainedStep& step,
                                    std::size_t most);

/// The longest waits of the step that panels describe, kept while it stays the same.
class LongestWaits {
 public:
  static constexpr std::size_t most = 200;

  /// Returns null while the step is being analysed, or if it has too many spans for that.
  const std::vector<LongWait>* of(Model& model);
  int step() const { return key_.step; }

 private:
  StepKey key_;
  std::optional<std::vector<LongWait>> waits_;
};

}  // namespace lockstep::viz
