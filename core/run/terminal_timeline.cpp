#include "core/run/terminal_timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/trace/analysis.h"

namespace lockstep {

namespace {

struct Ink {
  char fill;
  const char* colour;  ///< ANSI background
};

Ink ink_of(Category category) {
  switch (category) {
    case Category::forward:
      return {'-', "\033[48;5;25;97m"};
    case Category::backward:
      return {'=', "\033[48;5;29;97m"};
    case Category::backward_input:
      return {'=', "\033[48;5;30;97m"};
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

/// What one rank computed in a step, in order of time: pipeline actions, or, in a lesson without
/// any, the stretches that it named.
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
    text += fmt::format("rank {:<3} ", timeline.ranks()[r]->rank);
    int at = 0;
    for (const TimelineSpan* span : rows[r]) {
      const int begin = std::max(column(span->start), at);
      const int end = std::max(column(span->end), begin);
      if (colour && begin > at) text += "\033[2m";
      text.append(static_cast<std::size_t>(begin - at), '.');
      if (colour && begin > at) text += "\033[0m";
      const Ink ink = ink_of(span->category);
      if (end > begin) {
        if (colour) text += ink.colour;
        text += label(timeline, *span);
        text.append(static_cast<std::size_t>(end - begin - 1), colour ? ' ' : ink.fill);
        if (colour) text += "\033[0m";
      }
      at = end;
    }
    if (colour) text += "\033[2m";
    text.append(static_cast<std::size_t>(std::max(columns - at, 0)), '.');
    if (colour) text += "\033[0m";
    text += '\n';
  }
  return text;
}

}  // namespace lockstep
