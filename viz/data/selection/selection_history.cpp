#include "viz/data/selection/selection_history.h"

namespace lockstep::viz {

void SelectionHistory::leave(const VisitedPlace& from) {
  after_.clear();
  if (before_.size() == most) before_.erase(before_.begin());
  before_.push_back(from);
}

std::optional<VisitedPlace> SelectionHistory::move(std::vector<VisitedPlace>& from,
                                                   std::vector<VisitedPlace>& to,
                                                   const VisitedPlace& now) {
  if (from.empty()) return {};
  to.push_back(now);
  const VisitedPlace place = from.back();
  from.pop_back();
  return place;
}

std::optional<VisitedPlace> SelectionHistory::back(const VisitedPlace& now) {
  return move(before_, after_, now);
}

std::optional<VisitedPlace> SelectionHistory::forward(const VisitedPlace& now) {
  return move(after_, before_, now);
}

}  // namespace lockstep::viz
