#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {

/// One action of a predicted schedule, at its predicted time.
struct GhostAction {
  int stage = 0;
  int microbatch = 0;
  Category category = Category::forward;
  Interval time;
};

/// The schedule that was predicted for a step: the run's own schedule, simulated with the mean time
/// of each stage's actions in that step and with the run's cluster (on the wall clock: with free
/// messages). It begins with the step's first action.
struct Ghost {
  std::vector<std::vector<GhostAction>> ranks;  ///< in timeline order; each by time
  Interval window;

  /// Returns the action that a span of a rank carries out, or null.
  const GhostAction* find(std::size_t rank, const TimelineSpan& span) const;
};

/// Returns the ghost of a step, or nothing if the trace does not name a schedule that the lessons
/// generate, or if the step is too large to simulate.
std::optional<Ghost> ghost_of(const Timeline& timeline, int step);

/// The ghosts of completed steps, computed when they are first shown.
class Ghosts {
 public:
  /// Returns the ghost of a step, or null if there is none (yet).
  const Ghost* find(const Timeline& timeline, const StepWindow& step);
  void clear() { steps_.clear(); }

 private:
  std::unordered_map<int, std::optional<Ghost>> steps_;
};

/// Says how a span differs from its prediction: "started 1.00 ms later and took 2.00 ms longer than
/// predicted".
std::string ghost_words(const GhostAction& predicted, const TimelineSpan& span);

}  // namespace lockstep::viz
