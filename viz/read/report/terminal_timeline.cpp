#include "viz/read/report/terminal_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "core/text/text_row.h"
#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// `later` is a chunk other than the rank's first.
Ink ink_of(Category category, bool later) {
  switch (category) {
    case Category::forward:
      return later ? Ink{'_', "\033[48;5;67;97m"} : Ink{'-', "\033[48;5;25;97m"};
    case Category::backward:
      return later ? Ink{'#', "\033[48;5;71;97m"} : Ink{'=', "\033[48;5;29;97m"};
    case Category::backward_input:
      return later ? Ink{'#', "\033[48;5;73;97m"} : Ink{'=', "\033[48;5;30;97m"};
    case Category::backward_weight:
      return {'~', "\033[48;5;58;97m"};
    default:
      return {'+', "\033[48;5;60;97m"};
  }
}

std::string_view label(const Timeline& timeline, const TimelineSpan& span) {
  static constexpr std::string_view symbols = "0123456789abcdefghijklmnopqrstuvwxyz#";
  if (span.microbatch < 0) return std::string_view{timeline.name(span.name)}.substr(0, 1);
  return symbols.substr(static_cast<std::size_t>(std::min(span.microbatch, 36)), 1);
}

/// One rank's compute spans in a step, in order of time: its pipeline actions or, if the lesson has
/// none, the spans that the lesson named.
std::vector<TimelineSpan> spans_of(const Timeline& timeline, const RankTimeline& rank, int step,
                                   bool pipeline) {
  if (pipeline) return actions_of(timeline, rank, step);
  std::vector<TimelineSpan> spans;
  if (rank.compute() == nullptr) return spans;
  for (const SpanRow& row : rank.compute()->rows(Band::action))
    for (const TimelineSpan& span : row)
      if (span.step == step && span.category != Category::wait) spans.push_back(span);
  std::ranges::stable_sort(spans, {}, &TimelineSpan::start);
  return spans;
}

/// The intervals within a span in which the rank's compute lane waits.
Intervals waits(const RankTimeline& rank, const TimelineSpan& during) {
  std::vector<Interval> found;
  visit_band(*rank.compute(), Band::action, {during.start, during.end},
             [&](const TimelineSpan& span) {
               if (span.category == Category::wait) found.push_back({span.start, span.end});
             });
  return merged(std::move(found));
}

}  // namespace

std::string draw_timeline(const Timeline& timeline, int step, int width, bool colour,
                          int most_rows) {
  const bool pipeline = bubble(timeline, step).has_value();
  std::vector<std::vector<TimelineSpan>> rows;
  Picoseconds first = INT64_MAX;
  Picoseconds last = 0;
  for (const auto& rank : timeline.ranks()) {
    rows.push_back(spans_of(timeline, *rank, step, pipeline));
    for (const TimelineSpan& span : rows.back()) {
      first = std::min(first, span.start);
      last = std::max(last, span.end);
    }
  }
  if (first >= last) return {};

  const TextScale scale{first, last - first, std::max(width - 10, 20)};
  std::string text;
  const auto shown = std::min(rows.size(), static_cast<std::size_t>(most_rows));
  for (std::size_t r = 0; r < shown; ++r) {
    const RankTimeline& rank = *timeline.ranks()[r];
    TextRow row{scale, colour};
    int first_stage = INT_MAX;
    for (const TimelineSpan& span : rows[r])
      if (span.stage >= 0) first_stage = std::min(first_stage, span.stage);
    for (const TimelineSpan& span : rows[r])
      row.add(span.start, span.end, label(timeline, span),
              ink_of(span.category, span.stage > first_stage),
              intersection(waits(rank, span), {{span.start, span.end}}));
    text += fmt::format("rank {:<3} {}\n", rank.rank, row.text());
  }
  if (shown < rows.size()) text += fmt::format("and {} more ranks\n", rows.size() - shown);
  return text;
}

}  // namespace lockstep
