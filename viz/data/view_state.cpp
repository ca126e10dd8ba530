#include "viz/data/view_state.h"

#include <cstdlib>

namespace lockstep::viz {

void ViewState::mark(const Interval& time, Picoseconds near) {
  const auto same = [&](const Interval& each) {
    return std::abs(each.start - time.start) <= near && std::abs(each.end - time.end) <= near;
  };
  if (std::erase_if(marks, same) == 0) marks.push_back(time);
}

void ViewState::set_query(std::string_view text, const Timeline& timeline) {
  query = text;
  search = SpanSearch{text};
  found = search.empty() ? 0 : search.count(timeline);
}

}  // namespace lockstep::viz
