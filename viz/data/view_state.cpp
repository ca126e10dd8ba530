#include "viz/data/view_state.h"

#include <cstdlib>

namespace lockstep::viz {
namespace {

constexpr std::chrono::milliseconds count_budget{4};  // per frame

}  // namespace

void ViewState::mark(const Interval& time, Picoseconds near) {
  const auto same = [&](const Interval& each) {
    return std::abs(each.start - time.start) <= near && std::abs(each.end - time.end) <= near;
  };
  if (std::erase_if(marks, same) == 0) marks.push_back(time);
}

void ViewState::set_query(std::string_view text, const Timeline& timeline) {
  query = text;
  search = SpanSearch{text};
  found = 0;
  count_ = {};
  recounts_ = false;
  if (!search.empty()) count(timeline);
}

void ViewState::count(const Timeline& timeline) {
  search.count(timeline, count_, count_budget);
  if (count_.complete || !recounts_) found = count_.found;
}

void ViewState::refresh(const Timeline& timeline) {
  using Clock = std::chrono::steady_clock;
  if (counting()) return count(timeline);
  if (timeline.span_count() == counted_spans_) return;
  if (took_ > std::chrono::milliseconds{2} && !timeline.ended()) return;
  const auto begin = Clock::now();
  counted_spans_ = timeline.span_count();
  if (!search.empty()) {
    count_ = {};
    recounts_ = true;
    count(timeline);
  }
  // A range without ranks is still being dragged.
  if (range && !range->ranks.empty()) range = range_statistics(timeline, range->range);
  took_ = Clock::now() - begin;
}

}  // namespace lockstep::viz
