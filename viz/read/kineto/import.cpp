#include "viz/read/kineto/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/read/kineto/group_inference.h"
#include "viz/read/kineto/notes.h"
#include "viz/read/kineto/stages.h"

namespace lockstep::kineto {
namespace {

/// Sorts the traces by the rank that they state or, unless all state one, by file name; and numbers
/// them.
void number(Import& run) {
  std::vector<Trace>& traces = run.traces;
  run.ranks_stated =
      std::ranges::all_of(traces, [](const Trace& trace) { return trace.rank >= 0; });
  if (run.ranks_stated)
    std::ranges::stable_sort(traces, {}, &Trace::rank);
  else if (traces.size() > 1)
    std::ranges::stable_sort(traces, {}, &Trace::file);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    run.numbers.push_back(run.ranks_stated ? traces[i].rank : static_cast<int>(i));
    if (i > 0 && run.numbers[i] == run.numbers[i - 1])
      throw UsageError(fmt::format(
          "{} and {} are both traces of rank {}, from two runs or from two profiles of one run; "
          "give the traces of one profile",
          excerpt(traces[i - 1].file), excerpt(traces[i].file), traces[i].rank));
  }
}

/// Makes all traces count from the earliest origin.
void join_origins(std::vector<Trace>& traces) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const Trace& trace : traces) origin = std::min(origin, trace.origin_ns);
  for (Trace& trace : traces) {
    Picoseconds shift = 0;
    std::int64_t apart = 0;
    if (__builtin_sub_overflow(trace.origin_ns, origin, &apart) ||
        __builtin_mul_overflow(apart, 1000, &shift) || shift > latest_time / 4)
      shift = 0;  // these clocks are months apart, so their difference means nothing
    trace.map_times([&](Picoseconds time) { return time + shift; });
  }
}

/// Finds calls, actions, stages and matches at the traces' current times.
void find(Import& run) {
  run.calls.clear();
  run.actions.clear();
  for (const Trace& trace : run.traces) {
    RankCalls& calls = run.calls.emplace_back(find_calls(trace));
    run.actions.push_back(find_actions(trace, calls));
    if (run.groups_unknown)
      for (Call& call : calls.calls)
        if (call.members == unknown_group) call.members.clear();
  }
  infer_groups(run.calls, run.numbers, run.traces);
  run.stages_inferred = infer_stages(run.actions, run.calls, run.numbers);
  label_messages(run.actions, run.calls, run.numbers);
  run.matches = match_calls(run.calls, run.numbers, run.traces);
}

/// At first, collectives that name no group are assumed to include all ranks, and are matched by
/// their order. Returns whether the times contradict this: in more than 5% of them, the members
/// have no instant in common.
bool order_is_wrong(const Import& run) {
  std::size_t matched = 0, apart = 0;
  for (const Match& match : run.matches) {
    if (match.by != MatchedBy::order || match.kind == CallKind::send) continue;
    const Call& one = run.calls[match.members[0].rank].calls[match.members[0].call];
    if (one.members != unknown_group) continue;
    Picoseconds last_start = earliest_time, first_end = latest_time;
    for (const Match::Member& member : match.members) {
      const ClockCorrection& clock = run.alignment.ranks[member.rank];
      const Interval& time = run.calls[member.rank].calls[member.call].time;
      last_start = std::max(last_start, clock.apply(time.start));
      first_end = std::min(first_end, clock.apply(time.end));
    }
    ++matched;
    apart += last_start > first_end ? 1 : 0;
  }
  return matched > 0 && 20 * apart > matched;
}

/// Finds the contents of the traces, and how their clocks are related.
void align(Import& run) {
  find(run);
  run.alignment = align_clocks(run.calls, run.matches);
  if (order_is_wrong(run)) {
    run.groups_unknown = true;
    find(run);
    run.alignment = align_clocks(run.calls, run.matches);
  }
}

/// If the clocks differ, moves all times to the first trace's clock, and finds the contents again.
void correct_clocks(Import& run) {
  run.moved.assign(run.traces.size(), 0);
  if (!run.alignment.corrected) return;
  if (run.alignment.joins_any())
    for (std::size_t i = 0; i < run.traces.size(); ++i) {
      const ClockCorrection& clock = run.alignment.ranks[i];
      Trace& trace = run.traces[i];
      if (!trace.events.empty()) {
        const Picoseconds first = trace.events.front().start;
        run.moved[i] = clock.apply(first) - first;
      }
      trace.map_times([&](Picoseconds time) { return clock.apply(time); });
    }
  find(run);
}

/// Shifts all times so that the run's first event is at 0.
void count_from_first_event(Import& run) {
  Picoseconds first = latest_time;
  for (const Trace& trace : run.traces)
    if (!trace.events.empty()) first = std::min(first, trace.events.front().start);
  if (first == latest_time) return;
  const auto shift = [&](Interval& time) {
    time.start -= first;
    time.end -= first;
  };
  for (std::size_t i = 0; i < run.traces.size(); ++i) {
    run.traces[i].map_times([&](Picoseconds time) { return time - first; });
    for (Step& step : run.calls[i].steps) shift(step.time);
    for (Call& call : run.calls[i].calls) shift(call.time);
    for (Action& action : run.actions[i].actions) shift(action.time);
  }
}

}  // namespace

bool have_one_host(const std::vector<Trace>& traces) {
  return !traces.front().host.empty() && std::ranges::all_of(traces, [&](const Trace& trace) {
    return trace.host == traces.front().host;
  });
}

Import analyse(std::vector<Trace> traces) {
  if (traces.empty()) throw UsageError("no trace is given");
  Import run{.traces = std::move(traces)};
  number(run);
  join_origins(run.traces);
  align(run);
  correct_clocks(run);
  for (std::size_t i = 0; i < run.traces.size(); ++i) {
    if (run.traces[i].has_gpu())
      place_on_gpu(run.traces[i], run.actions[i]);
    else
      start_after_messages(run.actions[i], run.calls[i]);
  }
  count_from_first_event(run);
  run.notes = notes_of(run);
  return run;
}

}  // namespace lockstep::kineto
