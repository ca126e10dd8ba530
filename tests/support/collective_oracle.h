#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/time/cluster.h"

/// The bytes that collectives must send and the time they must take, derived from the rules in
/// core/time/README.md and the papers' formulas, not from the code. A collective is a list of
/// rounds; a round is a list of messages.
namespace lockstep::testing::oracle {

/// Number of elements in chunk i if n elements are divided among `ranks` ranks. Each of the first n
/// mod `ranks` chunks has one extra element.
inline std::int64_t chunk(std::int64_t n, int ranks, int i) {
  return n / ranks + (i < n % ranks ? 1 : 0);
}
/// Offset of chunk i; for i == ranks, the offset is n.
inline std::int64_t chunk_begin(std::int64_t n, int ranks, int i) {
  std::int64_t begin = 0;
  for (int k = 0; k < i; ++k) begin += chunk(n, ranks, k);
  return begin;
}
inline int wrap(int i, int ranks) {
  return ((i % ranks) + ranks) % ranks;
}
inline int log2_below(int n) {
  return n < 2 ? 0 : 1 + log2_below(n / 2);
}

// -- bytes ------------------------------------------------------------------------------------

/// Number of children, in a binomial tree, of the member `place` positions after the root.
inline int children(int place, int ranks) {
  int count = 0;
  for (int k = 1; k < ranks; k *= 2) count += place < k && place + k < ranks ? 1 : 0;
  return count;
}

/// Number of elements that member r sends. In a reduce-scatter, it sends all chunks except the one
/// whose sum it completes; in an all-gather, all chunks except the one it receives last.
inline std::int64_t ring_reduce_scatter(std::int64_t n, int ranks, int r) {
  return n - chunk(n, ranks, r);
}
inline std::int64_t ring_all_gather(std::int64_t n, int ranks, int r) {
  return n - chunk(n, ranks, wrap(r + 1, ranks));
}
inline std::int64_t ring(std::int64_t n, int ranks, int r) {
  return ring_reduce_scatter(n, ranks, r) + ring_all_gather(n, ranks, r);
}
inline std::int64_t naive(std::int64_t n, int ranks, int r) {
  return r == 0 ? (ranks - 1) * n : n;
}
inline std::int64_t broadcast(std::int64_t n, int ranks, int r, int root) {
  return children(wrap(r - root, ranks), ranks) * n;
}
inline std::int64_t tree(std::int64_t n, int ranks, int r) {
  return (r == 0 ? 0 : n) + broadcast(n, ranks, r, 0);
}

/// Position of member r among the P members left after folding, or -1 if member r only sends its
/// data to the next member, as the even members among the first 2 (N - P) do.
inline int place_in_power(int ranks, int r) {
  const int over = ranks - (1 << log2_below(ranks));
  if (r >= 2 * over) return r - over;
  return r % 2 == 0 ? -1 : r / 2;
}
inline int member_at(int ranks, int place) {
  const int over = ranks - (1 << log2_below(ranks));
  return place < over ? 2 * place + 1 : place + over;
}
inline bool unfolds(int ranks, int r) {
  return place_in_power(ranks, r) >= 0 && r < 2 * (ranks - (1 << log2_below(ranks)));
}

inline std::int64_t recursive_doubling(std::int64_t n, int ranks, int r) {
  if (ranks == 1) return 0;
  if (place_in_power(ranks, r) < 0) return n;
  return (log2_below(ranks) + (unfolds(ranks, r) ? 1 : 0)) * n;
}
/// While halving, a member sends everything except its own part. While doubling, it sends that
/// part, then twice as much, then four times as much, and so on.
inline std::int64_t rabenseifner(std::int64_t n, int ranks, int r) {
  if (ranks == 1) return 0;
  const int place = place_in_power(ranks, r);
  if (place < 0) return n;
  const int power = 1 << log2_below(ranks);
  std::int64_t sum = n - chunk(n, power, place) + (unfolds(ranks, r) ? n : 0);
  for (int have = 1; have < power; have *= 2) {
    const int first = place / have * have;
    sum += chunk_begin(n, power, first + have) - chunk_begin(n, power, first);
  }
  return sum;
}

// -- rounds -----------------------------------------------------------------------------------

struct Message {
  int from, to;
  std::int64_t elements;
};
using Round = std::vector<Message>;
using Rounds = std::vector<Round>;

inline Rounds operator+(Rounds a, const Rounds& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// N - 1 rounds in which every member sends to the next one. In round k, member r sends chunk r +
/// first - k.
inline Rounds ring_rounds(std::int64_t n, int ranks, int first) {
  Rounds rounds;
  for (int k = 0; k < ranks - 1; ++k) {
    Round& round = rounds.emplace_back();
    for (int r = 0; r < ranks; ++r)
      round.push_back({r, wrap(r + 1, ranks), chunk(n, ranks, wrap(r + first - k, ranks))});
  }
  return rounds;
}
inline Rounds reduce_scatter_rounds(std::int64_t n, int ranks) {
  return ring_rounds(n, ranks, -1);
}
inline Rounds all_gather_rounds(std::int64_t n, int ranks) {
  return ring_rounds(n, ranks, 0);
}
inline Rounds broadcast_rounds(std::int64_t n, int ranks, int root) {
  Rounds rounds;
  for (int k = 1; k < ranks; k *= 2) {
    Round& round = rounds.emplace_back();
    for (int place = 0; place < k && place + k < ranks; ++place)
      round.push_back({wrap(root + place, ranks), wrap(root + place + k, ranks), n});
  }
  return rounds;
}
/// Each member sends to the member whose index is the sender's without the lowest set bit.
inline Rounds reduce_rounds(std::int64_t n, int ranks) {
  Rounds rounds;
  for (int k = 1; k < ranks; k *= 2) {
    Round& round = rounds.emplace_back();
    for (int r = 1; r < ranks; ++r)
      if ((r & -r) == k) round.push_back({r, r - k, n});
  }
  return rounds;
}
/// One message per round, because the root receives messages one at a time.
inline Rounds gather_rounds(std::int64_t n, int ranks, int root) {
  Rounds rounds;
  for (int r = 0; r < ranks; ++r)
    if (r != root) rounds.push_back({{r, root, chunk(n, ranks, r)}});
  return rounds;
}
inline Rounds naive_rounds(std::int64_t n, int ranks) {
  Rounds rounds;
  for (int r = 1; r < ranks; ++r) rounds.push_back({{r, 0, n}});
  for (int r = 1; r < ranks; ++r) rounds.push_back({{0, r, n}});
  return rounds;
}
/// counts[i][j] is the number of elements that member i sends to member j.
inline Rounds all_to_all_rounds(const std::vector<std::vector<std::int64_t>>& counts) {
  const int ranks = static_cast<int>(counts.size());
  Rounds rounds;
  for (int k = 1; k < ranks; ++k) {
    Round& round = rounds.emplace_back();
    for (int r = 0; r < ranks; ++r) {
      const int to = wrap(r + k, ranks);
      round.push_back({r, to, counts[static_cast<std::size_t>(r)][static_cast<std::size_t>(to)]});
    }
  }
  return rounds;
}
inline Rounds barrier_rounds(int ranks) {
  Rounds rounds;
  for (int k = 1; k < ranks; k *= 2) {
    Round& round = rounds.emplace_back();
    for (int r = 0; r < ranks; ++r) round.push_back({r, wrap(r + k, ranks), 0});
  }
  return rounds;
}

/// The rounds among a power-of-two number of members. The remaining members are folded in
/// beforehand and folded out afterwards. `sends(place, mask, k)` is the number of elements that
/// `place` sends in exchange k to the place whose index differs in the bit `mask`.
template <class Sends>
Rounds folded(std::int64_t n, int ranks, const std::vector<int>& masks, Sends sends) {
  Rounds rounds;
  const int power = 1 << log2_below(ranks);
  Round in, out;
  for (int r = 0; r < ranks; ++r) {
    if (place_in_power(ranks, r) >= 0) continue;
    in.push_back({r, r + 1, n});
    out.push_back({r + 1, r, n});
  }
  rounds.push_back(in);
  for (std::size_t k = 0; k < masks.size(); ++k) {
    Round& round = rounds.emplace_back();
    for (int place = 0; place < power; ++place)
      round.push_back(
          {member_at(ranks, place), member_at(ranks, place ^ masks[k]), sends(place, masks[k], k)});
  }
  rounds.push_back(out);
  return rounds;
}
inline Rounds recursive_doubling_rounds(std::int64_t n, int ranks) {
  std::vector<int> masks;
  for (int k = 1; k < 1 << log2_below(ranks); k *= 2) masks.push_back(k);
  return folded(n, ranks, masks, [n](int, int, std::size_t) { return n; });
}
inline Rounds rabenseifner_rounds(std::int64_t n, int ranks) {
  const int power = 1 << log2_below(ranks);
  std::vector<int> masks;
  for (int k = power / 2; k >= 1; k /= 2) masks.push_back(k);
  const std::size_t halvings = masks.size();
  for (int k = 1; k < power; k *= 2) masks.push_back(k);
  return folded(n, ranks, masks, [=](int place, int mask, std::size_t k) {
    // While halving, a member sends its partner's half of the block; while doubling, its own block.
    const int whose = k < halvings ? place ^ mask : place;
    const int first = whose / mask * mask;
    return chunk_begin(n, power, first + mask) - chunk_begin(n, power, first);
  });
}

// -- time -------------------------------------------------------------------------------------

/// Ranks that communicate over one set of lanes, following the rules of modelled time.
class Machine {
 public:
  Machine(Cluster cluster, int ranks)
      : now(static_cast<std::size_t>(ranks)),
        cluster_(std::move(cluster)),
        out_(now.size()),
        in_(now.size()) {}

  /// Returns the time at which each rank finishes its part if it starts at its time in `ready`.
  std::vector<Picoseconds> run(const Rounds& rounds, std::vector<Picoseconds> ready) {
    std::vector<Picoseconds> end = ready;
    for (const Round& round : rounds) {
      std::vector<Picoseconds> next = ready;
      for (const Message& message : round) {
        const auto from = static_cast<std::size_t>(message.from);
        const auto to = static_cast<std::size_t>(message.to);
        const int per_node = cluster_.ranks_per_node;
        const bool near = message.from / per_node == message.to / per_node;
        const Link& ways = near ? cluster_.within : cluster_.between;
        Link::Segment link{0, ways.latency_seconds, ways.bandwidth};
        for (const Link::Segment& segment : ways.segments)
          if (4 * message.elements >= segment.from_bytes) link = segment;
        double best = std::numeric_limits<double>::infinity();
        for (const Link::Protocol& each : ways.protocols) {
          const auto bytes = static_cast<double>(4 * message.elements);
          const double cost = each.latency_seconds + bytes / each.bandwidth;
          if (4 * message.elements > each.up_to_bytes || cost >= best) continue;
          best = cost;
          link = {0, each.latency_seconds, each.bandwidth};
        }
        const auto alpha = std::llround(link.latency_seconds * 1e12);
        const auto beta =
            std::llround(static_cast<double>(4 * message.elements) / link.bandwidth * 1e12);
        const Picoseconds start = std::max(ready[from], out_[from]);
        out_[from] = start + beta;
        in_[to] = std::max(start + beta + alpha, in_[to] + beta);
        end[from] = std::max(end[from], out_[from]);
        end[to] = std::max(end[to], in_[to]);
        next[to] = std::max(next[to], in_[to]);
      }
      ready = next;
    }
    return end;
  }
  /// Every rank issues the collective and waits for it immediately.
  void run(const Rounds& rounds) { now = run(rounds, now); }

  std::vector<Picoseconds> now;  ///< current time of each rank's compute stream

 private:
  Cluster cluster_;
  std::vector<Picoseconds> out_, in_;  ///< when each lane becomes free
};

}  // namespace lockstep::testing::oracle
