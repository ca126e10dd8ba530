#include "viz/data/window/view_state.h"

#include <cstdlib>

namespace lockstep::viz {
namespace {

constexpr std::chrono::milliseconds count_budget{4};  // per frame
constexpr std::ptrdiff_t most_at_once = 200'000;  // spans of a range that is computed in a frame

/// Returns whether a range has at most `most` spans.
bool is_short(const Timeline& timeline, const Interval& range, std::ptrdiff_t most) {
  for (const auto& rank : timeline.ranks())
    for (const auto& lane : rank->lanes)
      for (const Band band : scanned_bands)
        for (const SpanRow& row : lane->rows(band)) {
          const auto first = std::partition_point(
              row.begin(), row.end(), [&](const auto& span) { return span.end < range.start; });
          const auto last = std::partition_point(
              first, row.end(), [&](const auto& span) { return span.start < range.end; });
          if ((most -= last - first) < 0) return false;
        }
  return true;
}

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
  search_trouble = search.trouble(timeline);
  if (!search.empty()) count(timeline);
}

void ViewState::select_range(const Timeline& timeline, const Interval& time, bool fixed) {
  chosen_kind.reset();
  if (!fixed || is_short(timeline, time, most_at_once)) {
    range = range_statistics(timeline, time);
    wants_job_ = false;
    return;
  }
  range = RangeStatistics{.range = time};
  wants_job_ = true;
  refresh_range(timeline);
}

void ViewState::wait() {
  if (job_.valid()) job_.wait();
}

void ViewState::refresh_range(const Timeline& timeline) {
  if (job_.valid() && job_.wait_for(std::chrono::seconds{0}) == std::future_status::ready) {
    RangeStatistics computed = job_.get();
    if (wants_job_ && range && range->range == computed.range) {
      range = std::move(computed);
      wants_job_ = false;
    }
  }
  if (!range) wants_job_ = false;
  if (wants_job_ && !job_.valid())
    job_ = std::async(std::launch::async, [&timeline, time = range->range] {
      return range_statistics(timeline, time);
    });
  if (!range || !by_name || dragging()) return;
  names.update(timeline, range->range, names_by_rank, count_budget);
  const NameTotal* chosen = chosen_kind ? names.find(*chosen_kind) : nullptr;
  if (chosen && names.complete())
    durations.update(timeline, range->range, *chosen, count_budget);
  else if (names.complete())
    chosen_kind.reset();
}

void ViewState::count(const Timeline& timeline) {
  search.count(timeline, count_, count_budget);
  if (count_.complete || !recounts_) found = count_.found;
}

void ViewState::refresh(const Timeline& timeline) {
  using Clock = std::chrono::steady_clock;
  refresh_range(timeline);
  if (searches()) return count(timeline);
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
