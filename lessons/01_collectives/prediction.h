#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/comm/algorithms.h"
#include "core/time/cluster.h"

namespace lockstep {

/// The number of elements in chunk i of N: the first n mod N chunks have one extra element.
inline std::int64_t chunk_elements(std::int64_t n, int N, int i) {
  return n / N + (i % N < n % N ? 1 : 0);
}

/// How many of the first N ranks share a node, if they fill several nodes of `per_node` ranks;
/// otherwise 0.
inline int node_of(int N, int per_node) {
  return N > per_node && N % per_node == 0 ? per_node : 0;
}

/// The elements that a member of a ring of N sends, all but two chunks in 2(N-1) messages.
inline std::int64_t ring_elements(std::int64_t n, int N, int r) {
  return N == 1 ? 0 : 2 * n - chunk_elements(n, N, r) - chunk_elements(n, N, r + 1);
}

/// The parents and children of one of the two trees on which the double tree sums: they are
/// numbered by place, and the second tree has the ranks in another order.
struct Tree {
  int N;
  bool second;

  int rank_at(int place) const {
    return !second ? place : N % 2 == 0 ? N - 1 - place : (place + 1) % N;
  }
  /// The place above: clearing the lowest bit and setting the next, or only clearing it if there is
  /// no such place.
  int parent(int place) const {
    const int bit = place & -place;
    const int up = (place ^ bit) | bit << 1;
    return up < N ? up : place ^ bit;
  }
  int depth(int place) const { return place == 0 ? 0 : 1 + depth(parent(place)); }
  /// By rank: its number of links to other ranks.
  std::vector<int> links() const {
    std::vector<int> count(static_cast<std::size_t>(N));
    for (int place = 1; place < N; ++place)
      for (const int end : {place, parent(place)}) ++count[static_cast<std::size_t>(rank_at(end))];
    return count;
  }
};

/// Elements that a rank sends, by the class of link.
struct Sent {
  std::int64_t within = 0, between = 0;
  std::int64_t total() const { return within + between; }
};

/// What rank r of N sends, with `node` ranks on each of several nodes.
///
/// Hierarchical: a ring in the node, then one between the nodes for the rank's own chunk. Rings: in
/// ring i, the ranks of a node follow one another from rank i on, so rank i - 1 sends to the next
/// node.
inline Sent sent_by_hierarchical(std::int64_t n, int N, int node, int r) {
  return {ring_elements(n, node, r % node),
          ring_elements(chunk_elements(n, node, r % node), N / node, r / node)};
}
inline Sent sent_by_rings(std::int64_t n, int N, int node, int r) {
  const int rings = static_cast<int>(std::clamp<std::int64_t>(n / N, 1, node));
  Sent sent;
  for (int i = 0; i < rings; ++i) {
    const int place = (r % node - i + node) % node;  // within the node, in the order of the ring
    const std::int64_t elements =
        ring_elements(chunk_elements(n, rings, i), N, r / node * node + place);
    (place == node - 1 ? sent.between : sent.within) += elements;
  }
  return sent;
}

/// The number of elements that rank r of N sends in an all-reduce of n elements; `node` is
/// node_of(). In the switch, a rank sends its elements once.
///
/// Ring: the reduce-scatter sends every chunk except the rank's own, which becomes complete. The
/// all-gather sends every chunk except the one that the right neighbour completed itself. Recursive
/// halving and doubling work on P ranks, the largest power of two <= N: each of the first N - P
/// even ranks sends all its elements to the odd rank after it, and receives the sums at the end.
inline std::int64_t elements_sent(Algorithm algorithm, std::int64_t n, int N, int r, int node = 0) {
  if (N == 1) return 0;
  const int P = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const int pairs = N - P;
  const bool paired = r < 2 * pairs;
  const int place = !paired ? r - pairs : r % 2 == 1 ? r / 2 : -1;
  switch (algorithm) {
    case Algorithm::ring:
      return ring_elements(n, N, r);
    case Algorithm::naive:
      return r == 0 ? (N - 1) * n : n;
    case Algorithm::tree: {  // up to the parent, down to each child
      std::int64_t messages = r == 0 ? 0 : 1;
      for (int k = 1; k < N; k *= 2) messages += r < k && r + k < N ? 1 : 0;
      return messages * n;
    }
    case Algorithm::recursive_doubling:
      if (place < 0) return n;
      return (std::bit_width(static_cast<unsigned>(P)) - 1 + (paired ? 1 : 0)) * n;
    case Algorithm::rabenseifner: {
      if (place < 0) return n;
      // Halving sends everything except the rank's own 1/P; doubling sends all sums that are
      // complete so far.
      std::int64_t sent = n - chunk_elements(n, P, place) + (paired ? n : 0);
      for (int have = 1; have < P; have *= 2)
        for (int i = 0; i < have; ++i) sent += chunk_elements(n, P, place / have * have + i);
      return sent;
    }
    case Algorithm::hierarchical:
      return node > 0 ? sent_by_hierarchical(n, N, node, r).total() : ring_elements(n, N, r);
    case Algorithm::double_tree: {  // each half over each link of its tree
      const auto at = static_cast<std::size_t>(r);
      return chunk_elements(n, 2, 0) * Tree{N, false}.links()[at] +
             chunk_elements(n, 2, 1) * Tree{N, true}.links()[at];
    }
    case Algorithm::rings:
      return node > 0 ? sent_by_rings(n, N, node, r).total() : ring_elements(n, N, r);
    case Algorithm::in_switch:
      return n;
  }
  return 0;
}

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

/// The closed form (Thakur, Rabenseifner, Gropp 2005) if it is exact, otherwise empty. Depending on
/// the algorithm, it may require a power-of-two number of ranks, chunks of equal size, or equal
/// links.
inline std::optional<AllReduceTime> closed_form(Algorithm algorithm, std::int64_t n, int N,
                                                const Cluster& cluster) {
  const int rounds =
      static_cast<int>(std::bit_width(static_cast<unsigned>(N))) - 1;  // log2 N, rounded down
  const bool power = std::has_single_bit(static_cast<unsigned>(N));
  AllReduceTime time;
  if (N == 1) return AllReduceTime{.formula = "0"};
  const int node = node_of(N, cluster.ranks_per_node);
  if ((algorithm == Algorithm::hierarchical || algorithm == Algorithm::rings) && node == 0)
    algorithm = Algorithm::ring;
  if (algorithm == Algorithm::in_switch) {
    const Link::Segment link = cluster.in_switch.value().at(4 * n);
    return AllReduceTime{picoseconds(link.latency_seconds),
                         picoseconds(4 * static_cast<double>(n) / link.bandwidth),
                         "α + nβ of the switch (a cost only)"};
  }
  if (algorithm == Algorithm::hierarchical) {
    // All ranks keep in step if all chunks are equal.
    if (n % N != 0) return {};
    if (node > 1) time.add(cluster, 0, 1, n / node, 2 * (node - 1));
    time.add(cluster, 0, node, n / N, 2 * (N / node - 1));
    time.formula = "2(g-1)(α + ⌈n/g⌉β) + 2(k-1)(α' + ⌈n/N⌉β')";
    return time;
  }
  if (algorithm == Algorithm::ring && N > cluster.ranks_per_node) {
    // The rank before a slow link has its next chunk long before the link is free again, so its
    // 2(N-1) messages leave back to back, and α counts only once, for the last message. This
    // requires that the slow link takes so long per chunk that all hops between two slow links fit
    // into that time: α <= (gap - 1)(βn/N - α' - β'n/N). Here gap is the number of hops from one
    // slow link to the next, and α' and β' are those of a link within a node.
    const int full = cluster.ranks_per_node;
    AllReduceTime step, hop;
    step.add(cluster, 0, full, n / N);
    hop.add(cluster, 0, std::min(full - 1, 1), n / N);
    const int gap = N % full == 0 ? full : std::min(full, N % full);
    const Picoseconds spare = step.bandwidth - hop.total();
    if (n % N != 0 || spare < 0 || step.latency > (gap - 1) * spare) return {};
    return AllReduceTime{step.latency, 2 * (N - 1) * step.bandwidth,
                         "α + 2(N-1)⌈n/N⌉β of the slow link"};
  }
  // A longer message takes longer, and also holds its lane for longer.
  const bool one_line = cluster.within.segments.empty() && cluster.within.protocols.empty();
  if (N > cluster.ranks_per_node) return {};
  switch (algorithm) {
    case Algorithm::ring:
      if (n % N != 0 && !one_line) return {};
      time.add(cluster, 0, 1, (n + N - 1) / N, 2 * (N - 1));
      time.formula = "2(N-1)α + 2(N-1)⌈n/N⌉β";
      return time;
    case Algorithm::naive:
      // All messages arrive at one rank, one after another, and later leave it one after another; α
      // counts only for the last.
      time.add(cluster, 0, 1, n, 2);
      time.bandwidth *= N - 1;
      time.formula = "2α + 2(N-1)nβ";
      return time;
    case Algorithm::tree:
      if (!power) return {};
      time.add(cluster, 0, 1, n, 2 * rounds);
      time.formula = "2log₂N(α + nβ)";
      return time;
    case Algorithm::recursive_doubling:
      if (!power) return {};
      time.add(cluster, 0, 1, n, rounds);
      time.formula = "log₂N(α + nβ)";
      return time;
    case Algorithm::rabenseifner:
      if (!power || n % N != 0) return {};
      for (int half = N / 2; half >= 1; half /= 2) time.add(cluster, 0, 1, half * (n / N), 2);
      time.formula = "2log₂N α + 2((N-1)/N)nβ";
      return time;
    default:
      return {};
  }
}

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

/// Simulates the messages of an algorithm, round by round.
inline AllReduceTime play_messages(Algorithm algorithm, std::int64_t n, int N,
                                   const Cluster& cluster) {
  MessageByMessage play{N, cluster};
  const int node = node_of(N, cluster.ranks_per_node);
  if (algorithm == Algorithm::in_switch) return *closed_form(algorithm, n, N, cluster);
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

/// Predicts an all-reduce of n f32 elements between the first N ranks of `cluster`: by the closed
/// form if there is one, otherwise message by message. Rounds each message once, as the modelled
/// clock does.
inline AllReduceTime predict_all_reduce(Algorithm algorithm, std::int64_t n, int N,
                                        const Cluster& cluster) {
  const auto closed = closed_form(algorithm, n, N, cluster);
  return closed ? *closed : play_messages(algorithm, n, N, cluster);
}

/// The array's size divided by the time, in bytes per second: the rate from the point of view of
/// the caller.
inline double algorithm_bandwidth(std::int64_t bytes, double time_seconds) {
  return static_cast<double>(bytes) / time_seconds;
}
/// The rate on each link if the algorithm sends the minimum number of bytes (nccl-tests,
/// PERFORMANCE.md). This rate can be compared across N, and with the link's own bandwidth.
inline double bus_bandwidth(std::int64_t bytes, double time_seconds, int N) {
  return algorithm_bandwidth(bytes, time_seconds) * 2 * (N - 1) / N;
}

}  // namespace lockstep
