#include "core/comm/algorithms.h"

#include <algorithm>

namespace lockstep {

namespace {

/// Returns the largest power of two <= n.
int power_below(int n) {
  int power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

}  // namespace

// -- rings ------------------------------------------------------------------------------------

// Step k sends chunk (rank - k - 1) to the right, and receives and adds the chunk before it from
// the left. After N - 1 steps, chunk `rank` has passed through all members, and its sum is complete
// on this member.
void ring_reduce_scatter(Peers& peers, View data) {
  const auto chunk = [&](int i) { return chunk_of(data, peers.neighbour(i), peers.size()); };
  for (int k = 0; k < peers.size() - 1; ++k)
    peers.exchange_add(chunk(-k - 1), peers.neighbour(1), chunk(-k - 2), peers.neighbour(-1));
}

// Each step forwards the chunk received in the previous step; the first step sends this member's
// own chunk.
void ring_all_gather(Peers& peers, View data) {
  const auto chunk = [&](int i) { return chunk_of(data, peers.neighbour(i), peers.size()); };
  for (int k = 0; k < peers.size() - 1; ++k)
    peers.exchange(chunk(-k), peers.neighbour(1), chunk(-k - 1), peers.neighbour(-1));
}

// -- trees ------------------------------------------------------------------------------------

// In round k (1, 2, 4, ...), every member less than k places after the root sends the data to the
// member k places after itself.
void binomial_broadcast(Peers& peers, View data, int root) {
  const int place = peers.neighbour(-root);
  const auto member = [&](int distance) { return (root + distance) % peers.size(); };
  for (int k = 1; k < peers.size(); k *= 2) {
    if (place < k && place + k < peers.size()) peers.send(data, member(place + k));
    if (place >= k && place < 2 * k) peers.receive(data, member(place - k));
  }
}

void binomial_reduce(Peers& peers, View data) {
  for (int k = 1; k < peers.size(); k *= 2) {
    if (peers.rank() % (2 * k) == k) return peers.send(data, peers.rank() - k);
    if (peers.rank() + k < peers.size()) peers.receive_add(data, peers.rank() + k);
  }
}

// -- one to all, all to one, all to all ---------------------------------------------------------

void linear_gather(Peers& peers, View data, int root) {
  const auto chunk = [&](int i) { return chunk_of(data, i, peers.size()); };
  if (peers.rank() != root) return peers.send(chunk(peers.rank()), root);
  for (int i = 0; i < peers.size(); ++i)
    if (i != root) peers.receive(chunk(i), i);
}

void naive_all_reduce(Peers& peers, View data) {
  if (peers.rank() != 0) {
    peers.send(data, 0);
    peers.receive(data, 0);
    return;
  }
  for (int i = 1; i < peers.size(); ++i) peers.receive_add(data, i);
  for (int i = 1; i < peers.size(); ++i) peers.send(data, i);
}

void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts) {
  const auto part = [](View data, std::span<const std::int64_t> counts, int i) {
    std::int64_t first = 0;
    for (int j = 0; j < i; ++j) first += counts[static_cast<std::size_t>(j)];
    return slice(data, first, counts[static_cast<std::size_t>(i)]);
  };
  peers.copy(part(out, send_counts, peers.rank()), part(in, receive_counts, peers.rank()));
  for (int k = 1; k < peers.size(); ++k) {
    const int to = peers.neighbour(k);
    const int from = peers.neighbour(-k);
    peers.exchange(part(out, send_counts, to), to, part(in, receive_counts, from), from);
  }
}

void dissemination_barrier(Peers& peers) {
  const View nothing{nullptr, {0}};
  for (int k = 1; k < peers.size(); k *= 2)
    peers.exchange(nothing, peers.neighbour(k), nothing, peers.neighbour(-k));
}

// -- halving and doubling -----------------------------------------------------------------------

namespace {

/// The P members (P is a power of two) that exchange messages in the halving and doubling rounds.
/// The other N - P members are the even ones among the first 2(N - P): each sends its elements to
/// the next member (fold), and receives the sums from it at the end (unfold).
class Core {
 public:
  explicit Core(Peers& peers)
      : peers_(peers),
        size_(power_below(peers.size())),
        pairs_(peers.size() - size_),
        place_(peers.rank() >= 2 * pairs_ ? peers.rank() - pairs_
               : peers.rank() % 2 == 1    ? peers.rank() / 2
                                          : -1) {}

  int size() const { return size_; }
  /// This member's index in the core, or -1 if it is not in the core.
  int place() const { return place_; }
  /// The member whose index in the core differs from this member's in the bits of `mask`.
  int partner(int mask) const {
    const int other = place_ ^ mask;
    return other < pairs_ ? 2 * other + 1 : other + pairs_;
  }

  void fold(View data) {
    if (place_ < 0) peers_.send(data, peers_.rank() + 1);
    if (place_ >= 0 && place_ < pairs_) peers_.receive_add(data, peers_.rank() - 1);
  }
  void unfold(View data) {
    if (place_ < 0) peers_.receive(data, peers_.rank() + 1);
    if (place_ >= 0 && place_ < pairs_) peers_.send(data, peers_.rank() - 1);
  }

 private:
  Peers& peers_;
  int size_;
  int pairs_;
  int place_;
};

}  // namespace

void recursive_doubling_all_reduce(Peers& peers, View data) {
  Core core{peers};
  core.fold(data);
  if (core.place() >= 0)
    for (int mask = 1; mask < core.size(); mask *= 2)
      peers.exchange_add(data, core.partner(mask), data, core.partner(mask));
  core.unfold(data);
}

// Each round halves the range of elements that a member owns: it sends its partner the half that it
// gives up, and adds the partner's values to the half that it keeps. Then the same rounds, in
// reverse order, double the completed range.
void rabenseifner_all_reduce(Peers& peers, View data) {
  Core core{peers};
  core.fold(data);
  if (core.place() >= 0) {
    const auto parts = [&](int first, int count) {
      std::int64_t before = 0;
      std::int64_t elements = 0;
      for (int i = 0; i < first + count; ++i)
        (i < first ? before : elements) += chunk_of(data, i, core.size()).elements();
      return slice(data, before, elements);
    };
    int first = 0;
    for (int half = core.size() / 2; half >= 1; half /= 2) {
      const bool upper = (core.place() & half) != 0;
      peers.exchange_add(parts(upper ? first : first + half, half), core.partner(half),
                         parts(upper ? first + half : first, half), core.partner(half));
      if (upper) first += half;
    }
    for (int have = 1; have < core.size(); have *= 2) {
      const int other = first ^ have;
      peers.exchange(parts(first, have), core.partner(have), parts(other, have),
                     core.partner(have));
      first = std::min(first, other);
    }
  }
  core.unfold(data);
}

}  // namespace lockstep
