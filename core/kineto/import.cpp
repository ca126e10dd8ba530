#include "core/kineto/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/kineto/group_inference.h"
#include "core/kineto/notes.h"
#include "core/kineto/stages.h"

namespace lockstep::kineto {
namespace {

/// Sorts the traces by the rank that they state or, unless all state one, by file name; and numbers
/// them.
void number(Import& import) {
  std::vector<Trace>& traces = import.traces;
  import.ranks_stated =
      std::ranges::all_of(traces, [](const Trace& trace) { return trace.rank >= 0;
});
if (import.ranks_stated)
  std::ranges::stable_sort(traces, {}, &Trace::rank);
else if (traces.size() > 1)
  std::ranges::stable_sort(traces, {}, &Trace::file);
for (std::size_t i = 0; i < traces.size(); ++i) {
  import.numbers.push_back(import.ranks_stated ? traces[i].rank : static_cast<int>(i));
  if (i > 0 && import.numbers[i] == import.numbers[i - 1])
    throw UsageError(fmt::format(
        "{} and {} are both of rank {}: they belong to two runs, or to two profiles of one; "
        "give the traces of one",
        excerpt(traces[i - 1].file), excerpt(traces[i].file), traces[i].rank));
}
}  // namespace

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
void find(Import& import) {
  import.calls.clear();
  import.actions.clear();
  for (const Trace& trace : import.traces) {
    RankCalls& calls = import.calls.emplace_back(find_calls(trace));
    import.actions.push_back(find_actions(trace, calls));
    if (import.groups_unknown)
      for (Call& call : calls.calls)
        if (call.members == unknown_group) call.members.clear();
  }
  infer_groups(import.calls, import.numbers, import.traces);
  import.stages_inferred = infer_stages(import.actions, import.calls, import.numbers);
  label_messages(import.actions, import.calls, import.numbers);
  import.matches = match_calls(import.calls, import.numbers, import.traces);
}

/// At first, collectives that name no group are assumed to include all ranks, and are matched by
/// their order. Returns whether the times contradict this: in more than 5% of them, the members
/// have no instant in common.
bool order_is_wrong(const Import& import) {
  std::size_t matched = 0, apart = 0;
  for (const Match& match : import.matches) {
    if (match.by != MatchedBy::order || match.kind == CallKind::send) continue;
    const Call& one = import.calls[match.members[0].rank].calls[match.members[0].call];
    if (one.members != unknown_group) continue;
    Picoseconds last_start = earliest_time, first_end = latest_time;
    for (const Match::Member& member : match.members) {
      const ClockCorrection& clock = import.alignment.ranks[member.rank];
      const Interval& time = import.calls[member.rank].calls[member.call].time;
      last_start = std::max(last_start, clock.apply(time.start));
      first_end = std::min(first_end, clock.apply(time.end));
    }
    ++matched;
    apart += last_start > first_end ? 1 : 0;
  }
  return matched > 0 && 20 * apart > matched;
}

void align(Import& import) {
  find(import);
  import.alignment = align_clocks(import.calls, import.matches);
  if (order_is_wrong(import)) {
    import.groups_unknown = true;
    find(import);
    import.alignment = align_clocks(import.calls, import.matches);
  }
}

/// Moves the times of all traces to the clock of the first.
void correct_clocks(Import& import) {
  import.moved.assign(import.traces.size(), 0);
  if (!import.alignment.corrected) return;
  if (import.alignment.joins_any())
    for (std::size_t i = 0; i < import.traces.size(); ++i) {
      const ClockCorrection& clock = import.alignment.ranks[i];
      Trace& trace = import.traces[i];
      if (!trace.events.empty()) {
        const Picoseconds first = trace.events.front().start;
        import.moved[i] = clock.apply(first) - first;
      }
      trace.map_times([&](Picoseconds time) { return clock.apply(time); });
    }
  find(import);
}

/// Shifts all times so that the run's first event is at 0.
void count_from_first_event(Import& import) {
  Picoseconds first = latest_time;
  for (const Trace& trace : import.traces)
    if (!trace.events.empty()) first = std::min(first, trace.events.front().start);
  if (first == latest_time) return;
  const auto shift = [&](Interval& time) {
    time.start -= first;
    time.end -= first;
  };
  for (std::size_t i = 0; i < import.traces.size(); ++i) {
    import.traces[i].map_times([&](Picoseconds time) { return time - first;
  });
  for (Step& step : import.calls[i].steps) shift(step.time);
  for (Call& call : import.calls[i].calls) shift(call.time);
  for (Action& action : import.actions[i].actions) shift(action.time);
}
}  // namespace lockstep::kineto

}  // namespace

bool have_one_host(const std::vector<Trace>& traces) {
  return !traces.front().host.empty() && std::ranges::all_of(traces, [&](const Trace& trace) {
    return trace.host == traces.front().host;
  });
}

Import analyse(std::vector<Trace> traces) {
  if (traces.empty()) throw UsageError("no trace is given");
  Import import{.traces = std::move(traces)};
  number(import);
  join_origins(import.traces);
  align(import);
  correct_clocks(import);
  for (std::size_t i = 0; i < import.traces.size(); ++i) {
    if (import.traces[i].has_gpu())
      place_on_gpu(import.traces[i], import.actions[i]);
    else
      start_after_messages(import.actions[i], import.calls[i]);
  }
  count_from_first_event(import);
  import.notes = notes_of(import);
  return import;
}

}  // namespace lockstep::kineto
