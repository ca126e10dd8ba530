#include "core/run/report/pipeline_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/run/report/text_table.h"

namespace lockstep {

namespace {

constexpr std::size_t most_stages = 8;  ///< listed one by one in the line of the critical path

std::string action_words(const IdleInterval& idle) {
  return fmt::format("{} {} of stage {}",
                     idle.category == Category::forward ? "forward" : "backward", idle.microbatch,
                     idle.stage);
}

Picoseconds length(const IdleInterval& idle) {
  return idle.time.end - idle.time.start;
}

}  // namespace

std::optional<ObservedStep> observe_step(const Timeline& timeline, const Phase& phase) {
  if (!bubble(timeline, phase.first_step)) return {};  // no pipeline
  ObservedStep seen;
  std::optional<CriticalPath> path;
  for (seen.step = phase.first_step + phase.steps; !path && seen.step > phase.first_step;)
    path = critical_path(timeline, --seen.step);
  if (!path) return {};
  seen.path = std::move(*path);
  const auto idle = idle_intervals(timeline, seen.step);
  const auto in_flight = microbatches_in_flight(timeline, seen.step);
  seen.chunks = most_chunks(timeline, seen.step);
  for (std::size_t i = 0; i < idle.size(); ++i) {
    ObservedStep::OfRank& mine = seen.ranks.emplace_back();
    mine.rank = timeline.ranks()[i]->rank;
    mine.idle = sum_of_causes(idle[i]);
    for (const IdleInterval& each : idle[i])
      if (each.stage >= 0 && length(each) > length(mine.longest)) mine.longest = each;
    for (const InFlight& each : in_flight[i])
      mine.in_flight = std::max(mine.in_flight, each.microbatches);
  }
  return seen;
}

std::string idle_table(const ObservedStep& seen, const std::vector<int>& pipeline,
                       const std::vector<std::optional<int>>& predicted) {
  TableRows rows{{fmt::format("idle in step {}, ms", seen.step), "idle"}};
  std::vector<std::size_t> causes;
  for (std::size_t cause = 0; cause < idle_cause_count; ++cause) {
    const bool shows = std::ranges::any_of(seen.ranks, [&](const ObservedStep::OfRank& rank) {
      return ms(rank.idle[cause]) != ms(0);
    });
    if (!shows && static_cast<IdleCause>(cause) == IdleCause::other) continue;
    causes.push_back(cause);
    rows[0].push_back(name_of(static_cast<IdleCause>(cause)));
  }
  const char* counted = seen.chunks > 1 ? "microbatch x chunk" : "microbatches";
  rows[0].insert(rows[0].end(), {counted, "longest wait"});
  for (const ObservedStep::OfRank& rank : seen.ranks) {
    if (std::ranges::count(pipeline, rank.rank) == 0) continue;
    Picoseconds whole = 0;
    for (const Picoseconds part : rank.idle) whole += part;
    auto& row = rows.emplace_back();
    row = {fmt::format("rank {}", rank.rank), ms(whole)};
    for (const std::size_t cause : causes) row.push_back(ms(rank.idle[cause]));
    const std::optional<int>& expected = predicted.at(static_cast<std::size_t>(rank.rank));
    row.push_back(!expected ? fmt::format("{}", rank.in_flight)
                  : *expected == rank.in_flight
                      ? fmt::format("{} =", rank.in_flight)
                      : fmt::format("{} / {}", *expected, rank.in_flight));
    row.push_back(rank.longest.stage < 0 ? "-"
                                         : fmt::format("{} for {}", ms(length(rank.longest)),
                                                       action_words(rank.longest)));
  }
  join_equal_rows(rows);
  return table(rows) +
         "  idle = warm-up (before the rank's first action) + cool-down (after its last) + waiting "
         "(in between, for the\n"
         "  schedule) + straggler (actions beyond their usual duration) + messages (between "
         "stages)" +
         (causes.size() == idle_cause_count
              ? " + other\n  other: the host, and what the trace does "
                "not show\n"
              : "\n") +
         (seen.chunks > 1
              ? "  microbatch x chunk: the most pairs in flight at a time, each between its "
                "forward and its backward; '=': as the\n"
                "  schedule says\n"
              : "  microbatches: the most in flight at a time, between their forward and their "
                "backward; '=': as the schedule says\n") +
         (pipeline.size() < seen.ranks.size()
              ? fmt::format("  ranks of the first of {} pipelines\n",
                            seen.ranks.size() / std::max<std::size_t>(pipeline.size(), 1))
              : "");
}

std::string critical_path_line(const ObservedStep& seen) {
  const CriticalPath::Parts parts = seen.path.parts();
  std::string text = fmt::format("critical path of step {}: {} ms =", seen.step,
                                 ms(seen.path.window.end - seen.path.window.start));
  const char* separator = " ";
  const auto add = [&](const std::string& what, Picoseconds time) {
    text += fmt::format("{}{} {}", std::exchange(separator, " + "), what, ms(time));
  };
  if (parts.compute.size() <= most_stages) {
    for (const auto& [stage, time] : parts.compute) add(fmt::format("stage {}", stage), time);
  } else {
    Picoseconds all = 0;
    for (const auto& [stage, time] : parts.compute) all += time;
    add(fmt::format("{} stages", parts.compute.size()), all);
    const auto most = std::ranges::max_element(
        parts.compute, {}, [](const auto& of_stage) { return of_stage.second; });
    text += fmt::format(" (most on stage {}: {})", most->first, ms(most->second));
  }
  if (ms(parts.stalled) != ms(0)) add("waits in actions", parts.stalled);
  add("transfer", parts.transfer);
  add("latency", parts.latency);
  if (ms(parts.other) != ms(0)) add("other", parts.other);
  return text + "\n";
}

}  // namespace lockstep
