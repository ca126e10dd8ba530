#include "core/kineto/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/kineto/group_inference.h"

namespace lockstep::kineto {
namespace {

/// Gives each trace a rank and sorts them: the rank that it states or, if none does, its place.
void number(Import& import) {
  std::vector<Trace>& traces = import.traces;
  const bool known =
      std::ranges::all_of(traces, [](const Trace& trace) { return trace.rank >= 0; });
  if (known) {
    std::ranges::stable_sort(traces, {}, &Trace::rank);
    for (std::size_t i = 1; i < traces.size(); ++i)
      if (traces[i].rank == traces[i - 1].rank)
        throw UsageError(fmt::format(
            "{} and {} are both of rank {}: they belong to two runs, or to two profiles of one; "
            "give the traces of one",
            excerpt(traces[i - 1].file), excerpt(traces[i].file), traces[i].rank));
  } else if (traces.size() > 1) {
    std::ranges::stable_sort(traces, {}, &Trace::file);
    import.notes.push_back(
        "Not all traces name their rank (distributedInfo), so ranks are numbered by file name.");
  }
  for (std::size_t i = 0; i < traces.size(); ++i)
    import.numbers.push_back(known ? traces[i].rank : static_cast<int>(i));
  const int world = traces.front().world_size;
  if (world > 0 && static_cast<std::size_t>(world) > traces.size())
    import.notes.push_back(
        fmt::format("{} of the run's {} ranks are given; what they waited for on "
                    "the others is unknown.",
                    traces.size(), world));
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
      shift = 0;  // months apart: these clocks have nothing in common
    for (Event& event : trace.events) {
      event.start += shift;
      event.end += shift;
    }
    for (ForwardBackward& pass : trace.passes) {
      pass.forward += shift;
      pass.backward += shift;
    }
  }
}

std::string duration(Picoseconds time) {
  const auto value = static_cast<double>(time);
  const double size = std::abs(value);
  if (size >= 1e12) return fmt::format("{:.3g} s", value * 1e-12);
  if (size >= 1e9) return fmt::format("{:.3g} ms", value * 1e-9);
  return fmt::format("{:.3g} µs", value * 1e-6);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text + (ranks.size() > 8 ? ", ..." : "");
}

void note_unknown_groups(Import& import) {
  std::size_t unknown = 0;
  for (const RankCalls& rank : import.calls)
    for (const Call& call : rank.calls)
      if (call.members.empty() && call.comms_id.empty() && call.kind != CallKind::send &&
          call.kind != CallKind::receive)
        ++unknown;
  if (unknown > 0 && import.traces.size() > 1)
    import.notes.push_back(fmt::format(
        "{} collective{} not matched: {} no process group, and there are several.", unknown,
        unknown == 1 ? " is" : "s are", unknown == 1 ? "it names" : "they name"));
}

/// Finds calls, actions and matches at the current times. Returns whether stages were inferred.
bool find(Import& import) {
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
  const bool stages = infer_stages(import.actions, import.calls, import.numbers);
  label_messages(import.actions, import.calls, import.numbers);
  import.matches = match_calls(import.calls, import.numbers, import.traces);
  return stages;
}

/// Collectives that name no group were matched by their order, as if all ranks were in one. Returns
/// whether their times contradict that: no instant is common to all members of a collective.
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

void correct_clocks(Import& import) {
  Alignment& alignment = import.alignment;
  alignment = align_clocks(import.calls, import.matches);
  if (order_is_wrong(import)) {
    import.groups_unknown = true;
    find(import);
    alignment = align_clocks(import.calls, import.matches);
  }
  import.moved.assign(import.traces.size(), 0);
  if (import.traces.size() < 2) return;
  std::vector<int> alone;
  for (std::size_t i = 0; i < import.numbers.size(); ++i)
    if (!alignment.ranks[i].aligned) alone.push_back(import.numbers[i]);
  if (alone.size() + 1 == import.numbers.size() && have_one_host(import.traces)) {
    import.notes.push_back(fmt::format("All ranks ran on host {}, and share its clock.",
                                       excerpt(import.traces.front().host)));
    return;
  }
  if (alone.size() + 1 == import.numbers.size()) {
    import.notes.push_back(
        "The ranks have no collective in common that the traces identify, so their clocks are not "
        "aligned: times of different ranks compare only as well as their hosts' clocks do.");
    return;
  }
  if (!alone.empty())
    import.notes.push_back(fmt::format("No collective joins rank{} {} to rank {}: {} not aligned.",
                                       alone.size() == 1 ? "" : "s", list_of(alone),
                                       import.numbers.front(),
                                       alone.size() == 1 ? "its clock is" : "their clocks are"));
  if (!alignment.corrected) {
    import.notes.push_back(fmt::format(
        "The clocks agree within {}: the ends of {} matched collectives differ by at most {} (half "
        "of them by less than {}).",
        duration(alignment.residual), alignment.collectives, duration(alignment.largest_spread),
        duration(alignment.median_spread)));
    return;
  }
  double largest = 0;
  for (std::size_t i = 0; i < import.traces.size(); ++i) {
    const ClockCorrection& clock = alignment.ranks[i];
    Trace& trace = import.traces[i];
    if (!trace.events.empty()) {
      const Picoseconds first = trace.events.front().start;
      import.moved[i] = clock.apply(first) - first;
      largest = std::max(largest, std::abs(static_cast<double>(import.moved[i])));
    }
    for (Event& event : trace.events) {
      event.start = clock.apply(event.start);
      event.end = std::max(clock.apply(event.end), event.start);
    }
    for (ForwardBackward& pass : trace.passes) {
      pass.forward = clock.apply(pass.forward);
      pass.backward = clock.apply(pass.backward);
    }
  }
  import.notes.push_back(
      fmt::format("Clocks aligned within {} on the ends of {} matched collectives{}: moved by up "
                  "to {}; the ends "
                  "still differ by at most {} (half of them by less than {}).",
                  duration(alignment.residual), alignment.collectives,
                  alignment.messages > 0 ? fmt::format(" and {} messages", alignment.messages) : "",
                  duration(std::llround(largest)), duration(alignment.largest_spread),
                  duration(alignment.median_spread)));
}

void note_matches(Import& import) {
  std::map<MatchedBy, std::size_t> collectives, messages;
  for (const Match& match : import.matches)
    ++(match.kind == CallKind::send ? messages : collectives)[match.by];
  const auto list = [](const std::map<MatchedBy, std::size_t>& counts) {
    std::string text;
    for (const auto& [by, count] : counts)
      text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", count, name_of(by));
    return text;
  };
  if (!collectives.empty())
    import.notes.push_back(fmt::format("Collectives matched: {}.", list(collectives)));
  if (!messages.empty())
    import.notes.push_back(fmt::format("Messages matched: {}.", list(messages)));
  if (collectives.contains(MatchedBy::inferred) || messages.contains(MatchedBy::inferred))
    import.notes.push_back(
        "Some name no process group: the groups are inferred from the ranks whose kernels end "
        "together.");
}

void note_actions(Import& import, bool stages) {
  std::set<ActionsFrom> from;
  for (const RankActions& rank : import.actions) from.insert(rank.from);
  if (from.contains(ActionsFrom::labels))
    import.notes.push_back(
        "Pipeline actions come from the annotations PP:{stage}{op}{microbatch}.");
  if (from.contains(ActionsFrom::annotations))
    import.notes.push_back(
        "Pipeline actions come from the annotations \"Forward N\" and \"Backward N\".");
  if (from.contains(ActionsFrom::parts))
    import.notes.push_back(
        "Forward and backward parts come from annotations such as \"attn(F)\" and \"mlp(B)\".");
  if (from.contains(ActionsFrom::flows))
    import.notes.push_back(
        "Forward and backward passes are inferred from autograd's flows (fwdbwd).");
  if (stages) import.notes.push_back("Stages are inferred from the order of the messages.");
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
    for (Event& event : import.traces[i].events) {
      event.start -= first;
      event.end -= first;
    }
    for (Step& step : import.calls[i].steps) shift(step.time);
    for (Call& call : import.calls[i].calls) shift(call.time);
    for (Action& action : import.actions[i].actions) shift(action.time);
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
  Import import{.traces = std::move(traces)};
  number(import);
  join_origins(import.traces);
  bool stages = find(import);
  correct_clocks(import);
  if (import.alignment.corrected) stages = find(import);
  for (std::size_t i = 0; i < import.traces.size(); ++i) {
    if (import.traces[i].has_gpu())
      place_on_gpu(import.traces[i], import.actions[i]);
    else
      start_after_messages(import.actions[i], import.calls[i]);
  }
  count_from_first_event(import);
  note_matches(import);
  note_unknown_groups(import);
  note_actions(import, stages);
  if (std::ranges::none_of(import.calls, &RankCalls::has_steps))
    import.notes.push_back(
        "The traces have no profiler steps (ProfilerStep#N), so each is shown as one step.");
  return import;
}

}  // namespace lockstep::kineto
