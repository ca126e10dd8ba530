#include "viz/read/report/pipeline_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/text_table.h"

namespace lockstep {

namespace {

constexpr std::size_t most_stages = 8;  ///< listed one by one in the line of the critical path

/// The longest piece of a rank's bubble, with the action that it waits for.
std::string longest_wait(const RankAccount& rank) {
  const StepPiece* longest = nullptr;
  const auto length_of = [](const StepPiece& piece) { return piece.time.end - piece.time.start; };
  for (const StepPiece& piece : rank.pieces)
    if (is_bubble(piece.part) && piece.stage >= 0 &&
        (!longest || length_of(piece) > length_of(*longest)))
      longest = &piece;
  if (!longest) return "-";
  return fmt::format("{} for {} {} of stage {}", ms(length_of(*longest)),
                     longest->category == Category::forward ? "forward" : "backward",
                     longest->microbatch, longest->stage);
}

}  // namespace

std::optional<PipelineStep> observe_step(const Timeline& timeline, const Phase& phase) {
  if (!bubble(timeline, phase.first_step)) return {};  // no pipeline
  PipelineStep seen;
  std::optional<CriticalPath> path;
  for (seen.step = phase.first_step + phase.steps; !path && seen.step > phase.first_step;)
    path = critical_path(timeline, --seen.step);
  if (!path) return {};
  seen.path = std::move(*path);
  const auto in_flight = microbatches_in_flight(timeline, seen.step);
  seen.chunks = most_chunks(timeline, seen.step);
  for (std::size_t i = 0; i < in_flight.size(); ++i) {
    PipelineStep::OfRank& mine = seen.ranks.emplace_back();
    mine.rank = timeline.ranks()[i]->rank;
    for (const InFlight& each : in_flight[i])
      mine.in_flight = std::max(mine.in_flight, each.microbatches);
  }
  return seen;
}

std::string bubble_by_part(const PipelineStep& seen, const StepAccount& account,
                           const std::vector<int>& pipeline,
                           const std::vector<std::optional<int>>& predicted) {
  TableRows rows{{fmt::format("bubble in step {}, ms", seen.step), "bubble", "warm-up", "waiting",
                  "cool-down", seen.chunks > 1 ? "microbatch x chunk" : "microbatches",
                  "longest wait"}};
  for (const PipelineStep::OfRank& rank : seen.ranks) {
    const RankAccount* own = account.find(rank.rank);
    if (!own || std::ranges::count(pipeline, rank.rank) == 0) continue;
    const StepSums& sums = own->sums;
    const std::optional<int>& expected = predicted.at(static_cast<std::size_t>(rank.rank));
    rows.push_back({fmt::format("rank {}", rank.rank), ms(sums.bubble()), ms(sums.warm_up),
                    ms(sums.waiting), ms(sums.cool_down),
                    !expected ? fmt::format("{}", rank.in_flight)
                    : *expected == rank.in_flight
                        ? fmt::format("{} =", rank.in_flight)
                        : fmt::format("{} / {}", *expected, rank.in_flight),
                    longest_wait(*own)});
  }
  join_equal_rows(rows);
  return table(rows) +
         "  warm-up: before the rank's first action, the pipeline fills; waiting: after it\n"
         "  cool-down: the pipeline drains, before any rank's first action of the step or after "
         "this "
         "rank's last work\n" +
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

std::string critical_path_line(const PipelineStep& seen) {
  const CriticalPath::Parts parts = seen.path.parts();
  std::string text = fmt::format("critical path of step {}'s actions: {} ms =", seen.step,
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
