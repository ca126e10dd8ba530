#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/run/rank.h"
#include "core/time/fit.h"

namespace lockstep {

/// The largest of all ranks' values, on every rank; moved aside from what is counted and timed.
inline Picoseconds largest_of_all(Transport& transport, Picoseconds mine) {
  Picoseconds largest = mine;
  for (const std::string& each : gather_to_root(transport, std::to_string(mine)))
    largest = std::max<Picoseconds>(largest, std::stoll(each));
  return std::stoll(broadcast_from_root(transport, std::to_string(largest)));
}

/// When all that this rank has begun is done; on a GPU the host waits for it.
inline Picoseconds time_when_done(Rank& rank) {
  rank.compute.synchronise();
  return rank.compute.now();
}

/// From here on all ranks' times are comparable: on the modelled clock they are the same, by the
/// wall all ranks have come.
inline void start_together(Rank& rank) {
  const Picoseconds latest = largest_of_all(*rank.transport, time_when_done(rank));
  if (rank.clock.is_modelled())
    rank.compute.wait({latest}, {.name = "start together", .category = Category::wait});
}

inline Picoseconds median(std::vector<Picoseconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// How long `collective` takes between all ranks' start and the last one's end: on the modelled
/// clock exactly, by the wall the median of several samples of several calls each. Called by all
/// ranks, those that are no members with an empty function; all get the answer.
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

/// α and β by the wall clock: fitted to what messages of 0 B up to `buffer`'s size take. Called by
/// all ranks; `message` does one on this rank (empty: it waits), and takes `share` of its time.
inline Link measure_link(Rank& rank, View buffer, double share,
                         const std::function<void(View)>& message) {
  std::vector<MessageTime> times;
  const auto whole = static_cast<std::int64_t>(buffer.bytes());
  for (const std::int64_t most : {0, 4, 256, 1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22}) {
    const std::int64_t bytes = std::min(most, whole);
    if (!times.empty() && times.back().bytes == bytes) break;  // the buffer has no more
    const View part = slice(buffer, 0, bytes / 4);
    const Picoseconds time =
        time_of(rank, bytes, message ? [&] { message(part); } : std::function<void()>{});
    times.push_back({bytes, std::max(seconds(time), 1e-9) * share});
  }
  return fit_link(times);
}

/// Between ranks 0 and 1, while all others wait: half a round trip.
inline Link measure_ping_pong(Rank& rank, Group& group, View buffer) {
  const auto there_and_back = [&](View message) {
    if (rank.id == 0) group.send(message, 1).wait();
    group.receive(message, 1 - rank.id).wait();
    if (rank.id == 1) group.send(message, 0).wait();
  };
  return measure_link(rank, buffer, 0.5,
                      rank.id > 1 ? std::function<void(View)>{} : there_and_back);
}

/// Between neighbours of a ring, all at the same time: half of `buffer` goes out, the other half is
/// what comes in. `group` is null on ranks that are no members.
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
