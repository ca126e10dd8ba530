#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

#include "core/comm/double_tree.h"
#include "core/comm/rings.h"
#include "core/time/cluster.h"
#include "lessons/01_collectives/elements_sent.h"

namespace lockstep {

/// The time of an all-reduce as two terms: one grows with the number of messages, the other with
/// the number of bytes.
struct AllReduceTime {
  Picoseconds latency = 0;
  Picoseconds bandwidth = 0;
  const char* formula = "";  ///< of the closed form
  Picoseconds total() const { return latency + bandwidth; }
  auto operator<=>(const AllReduceTime& other) const { return total() <=> other.total(); }

  /// Adds the time of `times` messages of `elements` elements each, one after another.
  void add(const Cluster& cluster, int from, int to, std::int64_t elements, int times = 1) {
    latency += times * cluster.latency(from, to, 4 * elements);
    bandwidth += times * cluster.transfer(from, to, 4 * elements);
  }
};

/// Computes the time of an all-reduce for any links and any N. Takes the messages in the order in
/// which the algorithm sends them, and computes when each message can leave and when it arrives.
/// Reimplements the rules of the modelled clock (lesson 0), so that a run can be compared with
/// those rules, except those of shared links: messages never slow one another down here.
class MessageByMessage {
 public:
  MessageByMessage(int N, const Cluster& cluster)
      : cluster_(cluster), ranks_(static_cast<std::size_t>(N)) {}

  struct Message {
    int from, to;
    std::int64_t elements;
  };
  /// Simulates messages that do not wait for one another. First all messages leave; then each
  /// receiver takes the messages sent to it, in the order of `messages`. A rank is ready for the
  /// next round when its last message has arrived; it does not wait until the messages that it sent
  /// have arrived, or until their receivers are ready.
  void round(const std::vector<Message>& messages) {
    std::vector<AllReduceTime> sent;
    for (const auto& [from, to, elements] : messages) {
      Rank& sender = at(from);
      sent.push_back(std::max(sender.ready, sender.lane_out));
      sender.lane_out = held(sent.back(), from, to, elements);
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const auto& [from, to, elements] = messages[i];
      AllReduceTime arrived = held(sent[i], from, to, elements);
      arrived.latency += cluster_.latency(from, to, 4 * elements);
      Rank& receiver = at(to);
      receiver.lane_in = std::max(arrived, held(receiver.lane_in, from, to, elements));
      receiver.ready = std::max(receiver.ready, receiver.lane_in);
    }
  }

  /// The time at which the last rank is done, divided into latency and bandwidth terms along the
  /// chain of messages that this rank waited for.
  AllReduceTime end() const {
    AllReduceTime last;
    for (const Rank& rank : ranks_) last = std::max({last, rank.ready, rank.lane_out});
    last.formula = "message by message";
    return last;
  }

 private:
  struct Rank {
    AllReduceTime ready, lane_out, lane_in;
  };
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  /// The time at which a message that enters a lane at `start` frees the lane.
  AllReduceTime held(AllReduceTime start, int from, int to, std::int64_t elements) const {
    start.bandwidth += cluster_.transfer(from, to, 4 * elements);
    return start;
  }

  const Cluster& cluster_;
  std::vector<Rank> ranks_;
};

enum class Half { reduce_scatter, all_gather, both };

/// Simulates a ring's all-reduce of n elements, or one half of it, between N ranks. `rank_at` gives
/// the rank at a place of the ring. Step k of the reduce-scatter sends chunk r - k - 1, that of the
/// all-gather chunk r - k.
template <class RankAt>
void play_ring(MessageByMessage& play, std::int64_t n, int N, RankAt rank_at,
               Half half = Half::both) {
  for (const Half each : {Half::reduce_scatter, Half::all_gather}) {
    if (half != Half::both && half != each) continue;
    for (int k = 0; k < N - 1; ++k) {
      std::vector<MessageByMessage::Message> all;
      for (int place = 0; place < N; ++place)
        all.push_back({rank_at(place), rank_at((place + 1) % N),
                       chunk_elements(n, N, place - k - (each == Half::all_gather ? 0 : 1) + N)});
      play.round(all);
    }
  }
}

/// Simulates the messages of an algorithm, round by round. in_switch has none.
inline AllReduceTime play_messages(Algorithm algorithm, std::int64_t n, int N,
                                   const Cluster& cluster) {
  MessageByMessage play{N, cluster};
  const int node = node_of(N, cluster.ranks_per_node);
  if ((algorithm == Algorithm::hierarchical || algorithm == Algorithm::rings) && node == 0)
    algorithm = Algorithm::ring;
  if (algorithm == Algorithm::rings) {  // each has its own lanes; the last one ends the all-reduce
    const int rings = static_cast<int>(std::clamp<std::int64_t>(n / N, 1, node));
    AllReduceTime last;
    for (int i = 0; i < rings; ++i) {
      MessageByMessage alone{N, cluster};
      play_ring(alone, chunk_elements(n, rings, i), N,
                [&](int place) { return place / node * node + (place + i) % node; });
      last = std::max(last, alone.end());
    }
    return last;
  }
  const auto round = [&](int messages, auto message) {
    std::vector<MessageByMessage::Message> all;
    for (int i = 0; i < messages; ++i) all.push_back(message(i));
    play.round(all);
  };
  // Halving and doubling, among the P ranks that remain once the others have sent their elements.
  const int P = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const int pairs = N - P;
  const auto member = [&](int place) { return place < pairs ? 2 * place + 1 : place + pairs; };
  const auto exchange = [&](int mask, auto elements) {
    round(P, [&](int place) {
      return MessageByMessage::Message{member(place), member(place ^ mask), elements(place)};
    });
  };
  using Hop = MessageByMessage::Message;
  const auto fold = [&] { round(pairs, [&](int i) { return Hop{2 * i, 2 * i + 1, n}; }); };
  const auto unfold = [&] { round(pairs, [&](int i) { return Hop{2 * i + 1, 2 * i, n}; }); };

  switch (algorithm) {
    case Algorithm::ring:
      play_ring(play, n, N, [](int place) { return place; });
      break;
    case Algorithm::hierarchical: {  // in each half, the nodes' rings play before or after
      const int g = node, k = N / node;
      for (int each = 0; each < k; ++each)
        play_ring(
            play, n, g, [&](int place) { return each * g + place; }, Half::reduce_scatter);
      for (int rail = 0; rail < g; ++rail)
        play_ring(play, chunk_elements(n, g, rail), k, [&](int place) { return place * g + rail; });
      for (int each = 0; each < k; ++each)
        play_ring(
            play, n, g, [&](int place) { return each * g + place; }, Half::all_gather);
      break;
    }
    case Algorithm::double_tree: {
      // Piece i of each half goes up from depth d in round i + D - d, and down in round i + D + d.
      const int D = static_cast<int>(std::bit_width(static_cast<unsigned>(N - 1)));
      const int pieces = double_tree_pieces(n, DType::f32, N);
      for (int now = 0; now < pieces + 2 * D - 1; ++now) {
        std::vector<Hop> all;
        for (const bool second : {false, true}) {
          const Tree tree{N, second};
          const auto half = chunk_elements(n, 2, second ? 1 : 0);
          const auto hop = [&](int from, int to, int piece) {
            if (piece >= 0 && piece < pieces)
              all.push_back(
                  {tree.rank_at(from), tree.rank_at(to), chunk_elements(half, pieces, piece)});
          };
          for (int place = 1; place < N; ++place)
            hop(place, tree.parent(place), now - D + tree.depth(place));
          for (int place = 1; place < N; ++place)
            hop(tree.parent(place), place, now - D - tree.depth(place) + 1);
        }
        play.round(all);
      }
      break;
    }
    case Algorithm::rings:
    case Algorithm::in_switch:
      break;  // above
    case Algorithm::naive:
      round(N - 1, [&](int i) { return Hop{i + 1, 0, n}; });
      round(N - 1, [&](int i) { return Hop{0, i + 1, n}; });
      break;
    case Algorithm::tree:  // up level by level, then down again
      for (int k = 1; k < N; k *= 2)
        round((N + k - 1) / (2 * k), [&](int i) { return Hop{2 * k * i + k, 2 * k * i, n}; });
      for (int k = 1; k < N; k *= 2)
        round(std::min(k, N - k), [&](int i) { return Hop{i, i + k, n}; });
      break;
    case Algorithm::recursive_doubling:
      fold();
      for (int mask = 1; mask < P; mask *= 2) exchange(mask, [&](int) { return n; });
      unfold();
      break;
    case Algorithm::rabenseifner: {
      // The elements in `count` of P chunks, starting with `first`.
      const auto chunks = [&](int first, int count) {
        std::int64_t elements = 0;
        for (int i = first; i < first + count; ++i) elements += chunk_elements(n, P, i);
        return elements;
      };
      fold();
      for (int half = P / 2; half >= 1; half /= 2)  // sends the half that the partner keeps
        exchange(half, [&](int place) { return chunks((place ^ half) / half * half, half); });
      for (int have = 1; have < P; have *= 2)  // sends the completed range
        exchange(have, [&](int place) { return chunks(place / have * have, have); });
      unfold();
      break;
    }
  }
  return play.end();
}

}  // namespace lockstep
