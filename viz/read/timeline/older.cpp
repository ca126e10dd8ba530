#include "viz/read/timeline/older.h"

#include <algorithm>
#include <optional>
#include <span>

#include "core/base/number.h"

namespace lockstep {

namespace {

/// Sets the stage and the microbatch of an action that is only named, "PP:1F2".
void read_action(TimelineSpan& span, std::string_view name) {
  const std::size_t letter = name.find_first_of("FBIW", 3);
  if (!name.starts_with("PP:") || letter == std::string_view::npos) return;
  span.stage = number_from<std::int16_t>(name.substr(3, letter - 3)).value_or(-1);
  if (span.microbatch < 0)
    span.microbatch = number_from<int>(name.substr(letter + 1)).value_or(span.microbatch);
}

}  // namespace

void infer_facts(TimelineSpan& span, std::string_view name, const Lane& lane) {
  if (span.category <= Category::recompute && span.stage < 0) read_action(span, name);
  const bool communicates =
      span.category == Category::communication || span.category == Category::wait;
  if (!communicates || span.role != MessageRole::none || span.sequence >= 0) return;
  if (name == "send") span.role = MessageRole::sends;
  if (name == "recv") span.role = MessageRole::receives;
  if (!span.is_between_stages()) return;
  if (lane.name().find("activations") != std::string::npos) span.payload = Payload::activations;
  if (lane.name().find("gradients") != std::string::npos) span.payload = Payload::gradients;
}

std::uint64_t infer_message(const RankTimeline& rank, const TimelineSpan& wait) {
  std::optional<TimelineSpan> pending, last;
  for (const auto& lane : rank.lanes) {
    if (lane->is_compute()) continue;
    const auto& rows = lane->rows(Band::action);
    for (const SpanRow& row : std::span{rows}.first(std::min(rows.size(), Lane::most_searched))) {
      const auto fits = [&](const TimelineSpan& span) {
        return span.message != 0 && span.role == wait.role && span.stage == wait.stage &&
               span.microbatch == wait.microbatch && span.group == wait.group &&
               span.step == wait.step && (wait.peer < 0 || span.peer == wait.peer);
      };
      auto at = std::partition_point(row.begin(), row.end(),
                                     [&](const TimelineSpan& span) { return span.end < wait.end; });
      for (auto next = at; next != row.end() && next->start <= wait.end; ++next)
        if (fits(*next) && (!pending || next->end < pending->end)) pending = *next;
      while (at != row.begin() && !fits(*std::prev(at))) --at;
      if (at == row.begin()) continue;
      --at;
      if (!last || at->end > last->end) last = *at;
    }
  }
  return pending ? pending->message : last ? last->message : 0;
}

}  // namespace lockstep
