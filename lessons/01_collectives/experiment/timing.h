#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/run/rank/rank.h"
#include "core/time/fit.h"

namespace lockstep {

/// The maximum of all ranks' values, on every rank; these messages are neither counted nor timed.
inline Picoseconds largest_of_all(Transport& transport, Picoseconds mine) {
  Picoseconds largest = mine;
  for (const std::string& each : gather_to_all(transport, std::to_string(mine)))
    largest = std::max<Picoseconds>(largest, std::stoll(each));
  return largest;
}

/// The time when all of this rank's work is done. On a GPU, the host waits for that work.
inline Picoseconds time_when_done(Rank& rank) {
  rank.compute.synchronise();
  return rank.compute.now();
}

/// Makes all ranks' times comparable. On the modelled clock, their times become equal; on the wall
/// clock, the call returns once all ranks have made the call.
inline void start_together(Rank& rank) {
  const Picoseconds latest = largest_of_all(*rank.transport, time_when_done(rank));
  if (rank.clock.is_modelled()) rank.compute.start_together(latest);
}

inline Picoseconds median(std::vector<Picoseconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// The time of `collective` from the ranks' common start to the end of the last rank: exact on the
/// modelled clock; on the wall clock, the median of several samples of several calls each. All
/// ranks must call this, non-members with an empty function; all ranks get the result.
inline Picoseconds time_of(Rank& rank, std::int64_t bytes,
                           const std::function<void()>& collective) {
  const bool modelled = rank.clock.is_modelled();
  const int samples = modelled ? 1 : bytes <= 1 << 20 ? 15 : 7;
  const int calls = modelled ? 1 : bytes <= 1 << 14 ? 16 : bytes <= 1 << 18 ? 4 : 1;
  std::vector<Picoseconds> taken;
  for (int sample = modelled ? 0 : -2; sample < samples; ++sample) {
    start_together(rank);
    const Picoseconds start = rank.compute.now();
    if (collective)
      for (int call = 0; call < calls; ++call) collective();
    const Picoseconds mine = (time_when_done(rank) - start) / calls;
    const Picoseconds slowest = largest_of_all(*rank.transport, mine);
    if (sample >= 0) taken.push_back(slowest);
  }
  return median(taken);
}

/// α and β on the wall clock, fitted to the times of messages of 0 B up to `buffer`'s size. All
/// ranks must call this. `message` runs the exchange on this rank; if it is empty, the rank only
/// waits. `share` is the fraction of the measured time that one message takes.
inline Link measure_link(Rank& rank, View buffer, double share,
                         const std::function<void(View)>& message) {
  std::vector<MessageTime> times;
  const auto whole = static_cast<std::int64_t>(buffer.bytes());
  for (const std::int64_t most : {0, 4, 256, 1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22}) {
    const std::int64_t bytes = std::min(most, whole);
    if (!times.empty() && times.back().bytes == bytes) break;  // the largest size has been measured
    const View part = slice(buffer, 0, bytes / 4);
    const Picoseconds time =
        time_of(rank, bytes, message ? [&] { message(part); } : std::function<void()>{});
    times.push_back({bytes, std::max(seconds(time), 1e-9) * share});
  }
  return fit_link(times);
}

/// Measures half a round trip between ranks 0 and 1, while all other ranks wait.
inline Link measure_ping_pong(Rank& rank, Group& group, View buffer) {
  const auto there_and_back = [&](View message) {
    if (rank.id == 0) group.send(message, 1).wait();
    group.receive(message, 1 - rank.id).wait();
    if (rank.id == 1) group.send(message, 0).wait();
  };
  return measure_link(rank, buffer, 0.5,
                      rank.id > 1 ? std::function<void(View)>{} : there_and_back);
}

/// Measures the links between all neighbours of a ring at the same time. Sends half of `buffer` and
/// receives into the other half. `group` is null on non-members.
inline Link measure_busy_ring(Rank& rank, Group* group, View buffer) {
  const View into = slice(buffer, buffer.elements() / 2, buffer.elements() / 2);
  const auto exchange = [&](View out) {
    const int N = group->size();
    Work sent = group->send(out, (group->rank() + 1) % N);
    group->receive(slice(into, 0, out.elements()), (group->rank() + N - 1) % N).wait();
    sent.wait();
  };
  return measure_link(rank, slice(buffer, 0, buffer.elements() / 2), 1,
                      group == nullptr ? std::function<void(View)>{} : exchange);
}

}  // namespace lockstep
