#include "core/run/report/terminal_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "core/timeline/analysis.h"
#include "core/timeline/visit_band.h"

namespace lockstep {

namespace {

struct Ink {
  char fill;
  const char* colour;  ///< ANSI background
};

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

char label(const Timeline& timeline, const TimelineSpan& span) {
  if (span.microbatch < 0) return timeline.name(span.name).front();
  if (span.microbatch < 10) return static_cast<char>('0' + span.microbatch);
  return span.microbatch < 36 ? static_cast<char>('a' + span.microbatch - 10) : '#';
}

/// One rank's compute spans in a step, in order of time: its pipeline actions or, if the lesson has
/// none, the spans that the lesson named.
std::vector<const TimelineSpan*> actions_of(const Timeline& timeline, const RankTimeline& rank,
                                            int step, bool pipeline) {
  std::vector<const TimelineSpan*> actions;
  if (rank.compute() == nullptr) return actions;
  for (const SpanRow& row : rank.compute()->rows(Band::action))
    for (const TimelineSpan& span : row)
      if (span.step == step && span.category != Category::wait &&
          (!pipeline || is_pipeline_action(timeline, span)))
        actions.push_back(&span);
  std::sort(actions.begin(), actions.end(), [](auto a, auto b) { return a->start < b->start; });
  return actions;
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

/// One column of a row: part of an action, or idle time (`run` 0).
struct Cell {
  char glyph = '.';
  const char* colour = "\033[2m";
  int run = 0;  ///< adjacent cells of one run share a colour code
};

void append_cells(std::string& text, const std::vector<Cell>& cells, bool colour) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool first = i == 0 || cells[i].run != cells[i - 1].run;
    const bool last = i + 1 == cells.size() || cells[i].run != cells[i + 1].run;
    if (colour && first) text += cells[i].colour;
    text += cells[i].glyph;
    if (colour && last) text += "\033[0m";
  }
}

}  // namespace

std::string draw_timeline(const Timeline& timeline, int step, int width, bool colour) {
  const bool pipeline = bubble(timeline, step).has_value();
  std::vector<std::vector<const TimelineSpan*>> rows;
  Picoseconds first = INT64_MAX;
  Picoseconds last = 0;
  for (const auto& rank : timeline.ranks()) {
    rows.push_back(actions_of(timeline, *rank, step, pipeline));
    for (const TimelineSpan* span : rows.back()) {
      first = std::min(first, span->start);
      last = std::max(last, span->end);
    }
  }
  if (first >= last) return {};

  const int columns = std::max(width - 10, 20);
  const auto column = [&](Picoseconds time) {
    return static_cast<int>(
        (static_cast<double>(time - first) / static_cast<double>(last - first)) * columns + 0.5);
  };
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RankTimeline& rank = *timeline.ranks()[r];
    text += fmt::format("rank {:<3} ", rank.rank);
    std::vector<Cell> cells(static_cast<std::size_t>(columns));
    int at = 0, run = 0, first_stage = INT_MAX;
    for (const TimelineSpan* span : rows[r])
      if (span->stage >= 0) first_stage = std::min(first_stage, span->stage);
    for (const TimelineSpan* span : rows[r]) {
      const int begin = std::max(column(span->start), at);
      const int end = std::max(column(span->end), begin);
      const Ink ink = ink_of(span->category, span->stage > first_stage);
      ++run;
      for (int i = begin; i < end; ++i)
        cells[static_cast<std::size_t>(i)] = {colour ? ' ' : ink.fill, ink.colour, run};
      // Waits are rounded like actions, so that many short waits get their share of the columns.
      for (const Interval& wait : intersection(waits(rank, *span), {{span->start, span->end}}))
        for (int i = std::max(column(wait.start), begin); i < std::min(column(wait.end), end); ++i)
          cells[static_cast<std::size_t>(i)] = {};
      // The label goes where the action first computes; an action that only waits keeps its label.
      int labelled = begin;
      while (labelled < end && cells[static_cast<std::size_t>(labelled)].run == 0) ++labelled;
      if (labelled == end) labelled = begin;
      if (begin < end)
        cells[static_cast<std::size_t>(labelled)] = {label(timeline, *span), ink.colour, run};
      at = end;
    }
    append_cells(text, cells, colour);
    text += '\n';
  }
  return text;
}

}  // namespace lockstep
