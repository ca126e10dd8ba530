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

void ViewState::refresh(const Timeline& timeline) {
  using Clock = std::chrono::steady_clock;
  if (timeline.span_count() == counted_spans_) return;
  if (took_ > std::chrono::milliseconds{2} && !timeline.ended()) return;
  const auto begin = Clock::now();
  counted_spans_ = timeline.span_count();
  if (!search.empty()) found = search.count(timeline);
  // A range without ranks is still being dragged.
  if (range && !range->ranks.empty()) range = range_statistics(timeline, range->range);
  took_ = Clock::now() - begin;
}

}  // namespace lockstep::viz
