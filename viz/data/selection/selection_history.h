#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "viz/data/layout/viewport.h"
#include "viz/data/selection/finding.h"

namespace lockstep::viz {

/// What the user looked at: a selected object, and the window of time.
struct VisitedPlace {
  Finding selected;
  TimeWindow window;
};

/// The places that the user has visited, as in a browser: back, and forward again.
class SelectionHistory {
 public:
  /// Records that the user leaves `from` for a new place, and discards the places ahead.
  void leave(const VisitedPlace& from);
  /// Returns the place before or after `now`, to which back() or forward() then returns.
  std::optional<VisitedPlace> back(const VisitedPlace& now);
  std::optional<VisitedPlace> forward(const VisitedPlace& now);
  void clear() { before_.clear(), after_.clear(); }
  std::size_t behind() const { return before_.size(); }
  std::size_t ahead() const { return after_.size(); }

 private:
  static constexpr std::size_t most = 256;
  static std::optional<VisitedPlace> move(std::vector<VisitedPlace>& from,
                                          std::vector<VisitedPlace>& to, const VisitedPlace& now);
  std::vector<VisitedPlace> before_, after_;
};

}  // namespace lockstep::viz
