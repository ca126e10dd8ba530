#include "viz/read/kineto/waits.h"

#include <algorithm>

namespace lockstep::kineto {

std::vector<LatePeers> late_peers(const Import& import) {
  const bool one_clock = have_one_host(import.traces) && !import.alignment.corrected;
  const Picoseconds least = one_clock ? 0 : import.alignment.residual;
  std::vector<LatePeers> late(import.traces.size());
  for (const Match& match : import.matches) {
    const auto time_of = [&](const Match::Member& member) {
      return import.calls[member.rank].calls[member.call].time;
    };
    const auto last = std::ranges::max_element(
        match.members, {}, [&](const auto& member) { return time_of(member).start; });
    for (const Match::Member& member : match.members) {
      const Interval time = time_of(member);
      const Picoseconds start = std::min(time_of(*last).start, time.end);
      if (member.rank == last->rank || start - time.start <= least) continue;
      late[member.rank][member.call] = {import.numbers[last->rank], start};
    }
  }
  return late;
}

std::vector<Wait> waits_in(const Intervals& idle, const std::vector<Call>& calls,
                           const LatePeers& late) {
  std::vector<std::size_t> by_end;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].kind != CallKind::send) by_end.push_back(i);
  std::ranges::stable_sort(by_end, {}, [&](std::size_t i) { return calls[i].time.end; });
  std::vector<Wait> waits;
  auto next = by_end.begin();
  for (const Interval& gap : idle) {
    Picoseconds done = gap.start;  // the waits up to here are known
    for (; next != by_end.end() && calls[*next].time.end <= gap.end; ++next) {
      const Interval time{std::max(done, calls[*next].time.start), calls[*next].time.end};
      if (time.start >= time.end) continue;
      done = time.end;
      const auto peer = late.find(*next);
      const Picoseconds all_started =
          peer == late.end() ? time.start : std::clamp(peer->second.start, time.start, time.end);
      if (all_started > time.start)
        waits.push_back({{time.start, all_started}, *next, peer->second.rank});
      if (all_started < time.end) waits.push_back({{all_started, time.end}, *next, -1});
    }
  }
  return waits;
}

}  // namespace lockstep::kineto
