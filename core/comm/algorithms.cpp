#include "core/comm/algorithms.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <stdexcept>

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

namespace {

// Sums the data along the edges of a binomial tree, from the leaves to the root, member 0.
void binomial_reduce(Peers& peers, View data) {
  for (int k = 1; k < peers.size(); k *= 2) {
    if (peers.rank() % (2 * k) == k) return peers.send(data, peers.rank() - k);
    if (peers.rank() + k < peers.size()) peers.receive_add(data, peers.rank() + k);
  }
}

}  // namespace

// -- one to all, all to one, all to all ---------------------------------------------------------

void linear_gather(Peers& peers, View data, int root) {
  const auto chunk = [&](int i) { return chunk_of(data, i, peers.size()); };
  if (peers.rank() != root) return peers.send(chunk(peers.rank()), root);
  for (int i = 0; i < peers.size(); ++i)
    if (i != root) peers.receive(chunk(i), i);
}

namespace {

void naive_all_reduce(Peers& peers, View data) {
  if (peers.rank() != 0) {
    peers.send(data, 0);
    peers.receive(data, 0);
    return;
  }
  for (int i = 1; i < peers.size(); ++i) peers.receive_add(data, i);
  for (int i = 1; i < peers.size(); ++i) peers.send(data, i);
}

}  // namespace

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

}  // namespace

// -- nodes --------------------------------------------------------------------------------------

bool on_one_node(std::span<const int> ranks, int ranks_per_node) {
  return std::ranges::all_of(
      ranks, [&](int rank) { return rank / ranks_per_node == ranks.front() / ranks_per_node; });
}

int members_per_node(std::span<const int> ranks, int ranks_per_node) {
  const auto size = ranks.size();
  const auto node = [&](std::size_t member) { return ranks[member] / ranks_per_node; };
  std::size_t block = 1;
  while (block < size && node(block) == node(0)) ++block;
  if (block == size || size % block != 0) return 0;
  std::set<int> nodes;
  for (std::size_t member = 0; member < size; ++member) {
    if (member % block == 0 && !nodes.insert(node(member)).second) return 0;
    if (node(member) != node(member - member % block)) return 0;
  }
  return static_cast<int>(block);
}

namespace {

/// Every `stride`-th member of a group, as a group of its own: its members' messages are those of
/// the whole group.
class Subset final : public Peers {
 public:
  /// `size` members, from `first`; they include the member that `all` belongs to.
  Subset(Peers& all, int first, int stride, int size)
      : Peers((all.rank() - first) / stride, size), all_(all), first_(first), stride_(stride) {}

  void send(View out, int to) override { all_.send(out, member(to)); }
  void receive(View in, int from) override { all_.receive(in, member(from)); }
  void receive_add(View sum, int from) override { all_.receive_add(sum, member(from)); }
  void exchange(View out, int to, View in, int from) override {
    all_.exchange(out, member(to), in, member(from));
  }
  void exchange_add(View out, int to, View sum, int from) override {
    all_.exchange_add(out, member(to), sum, member(from));
  }
  void at_once(std::span<const Transfer> transfers) override {
    std::vector<Transfer> theirs{transfers.begin(), transfers.end()};
    for (Transfer& each : theirs) each.peer = member(each.peer);
    all_.at_once(theirs);
  }
  void copy(View from, View into) override { all_.copy(from, into); }
  View scratch(View like) const override { return all_.scratch(like); }
  void add_in_switch(View) override {
    throw std::logic_error("a switch adds the elements of a whole group");
  }

 private:
  int member(int i) const { return first_ + i * stride_; }

  Peers& all_;
  int first_;
  int stride_;
};

/// The members of this member's node.
Subset node_of(Peers& peers, int per_node) {
  return {peers, peers.rank() / per_node * per_node, 1, per_node};
}
/// The members that have this member's place in their nodes.
Subset rail_of(Peers& peers, int per_node) {
  return {peers, peers.rank() % per_node, per_node, peers.size() / per_node};
}

// Reduce-scatter within the node, all-reduce of the own chunk between the nodes, all-gather within
// the node.
void hierarchical_all_reduce(Peers& peers, View data, int per_node) {
  Subset node = node_of(peers, per_node);
  Subset rail = rail_of(peers, per_node);
  ring_reduce_scatter(node, data);
  all_reduce(Algorithm::ring, rail, chunk_of(data, node.rank(), node.size()));
  ring_all_gather(node, data);
}

/// The chunks of the members that have a place in their nodes: what their rail sums or gathers.
std::vector<View> chunks_of_rail(View data, int place, const Peers& all, int per_node) {
  std::vector<View> chunks;
  for (int member = place; member < all.size(); member += per_node)
    chunks.push_back(chunk_of(data, member, all.size()));
  return chunks;
}

/// One step of a ring in the node: passes on the chunks of one rail, and receives those of another.
void pass_rails(Subset& node, Peers& all, View data, int per_node, int out, int in, bool adds) {
  using Kind = Peers::Transfer::Kind;
  std::vector<Peers::Transfer> step;
  for (const View chunk : chunks_of_rail(data, out, all, per_node))
    step.push_back({Kind::send, chunk, node.neighbour(1)});
  for (const View chunk : chunks_of_rail(data, in, all, per_node))
    step.push_back({adds ? Kind::receive_add : Kind::receive, chunk, node.neighbour(-1)});
  node.at_once(step);
}

}  // namespace

// As ring_reduce_scatter, first within the node with the chunks of whole rails, and then along the
// own rail.
void hierarchical_reduce_scatter(Peers& peers, View data, int per_node) {
  Subset node = node_of(peers, per_node);
  Subset rail = rail_of(peers, per_node);
  for (int k = 0; k < node.size() - 1; ++k)
    pass_rails(node, peers, data, per_node, node.neighbour(-k - 1), node.neighbour(-k - 2), true);
  const std::vector<View> own = chunks_of_rail(data, node.rank(), peers, per_node);
  const auto chunk = [&](int i) { return own[static_cast<std::size_t>(rail.neighbour(i))]; };
  for (int k = 0; k < rail.size() - 1; ++k)
    rail.exchange_add(chunk(-k - 1), rail.neighbour(1), chunk(-k - 2), rail.neighbour(-1));
}

void hierarchical_all_gather(Peers& peers, View data, int per_node) {
  Subset node = node_of(peers, per_node);
  Subset rail = rail_of(peers, per_node);
  const std::vector<View> own = chunks_of_rail(data, node.rank(), peers, per_node);
  const auto chunk = [&](int i) { return own[static_cast<std::size_t>(rail.neighbour(i))]; };
  for (int k = 0; k < rail.size() - 1; ++k)
    rail.exchange(chunk(-k), rail.neighbour(1), chunk(-k - 1), rail.neighbour(-1));
  for (int k = 0; k < node.size() - 1; ++k)
    pass_rails(node, peers, data, per_node, node.neighbour(-k), node.neighbour(-k - 1), false);
}

void two_hop_all_to_all(Peers& peers, View out, View in, int per_node) {
  Subset node = node_of(peers, per_node);
  Subset rail = rail_of(peers, per_node);
  const View sorted = peers.scratch(out);
  const auto chunk = [&](View data, int i) { return chunk_of(data, i, peers.size()); };
  const auto exchange = [](Peers& among, View from, View into) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(among.size()),
                                           from.elements() / among.size());
    pairwise_all_to_all(among, from, counts, into, counts);
  };
  for (int place = 0; place < node.size(); ++place)
    for (int to = 0; to < rail.size(); ++to)
      peers.copy(chunk(out, to * node.size() + place), chunk(sorted, place * rail.size() + to));
  exchange(node, sorted, in);
  for (int place = 0; place < node.size(); ++place)
    for (int to = 0; to < rail.size(); ++to)
      peers.copy(chunk(in, place * rail.size() + to), chunk(sorted, to * node.size() + place));
  exchange(rail, sorted, in);
}

// -- two trees ----------------------------------------------------------------------------------

BinaryTree::BinaryTree(int rank, int size, bool second) {
  const auto mirrored = [&](int i) {  // between members and places, either way
    return size - 1 - i;
  };
  const int place = !second ? rank : size % 2 == 0 ? mirrored(rank) : (rank + size - 1) % size;
  const auto member = [&](int at) {
    return !second ? at : size % 2 == 0 ? mirrored(at) : (at + 1) % size;
  };
  // A place's lowest bit tells its level. Its parent is the place in the middle of the next level's
  // range that holds it, or, if that does not exist, the one before.
  const auto lowest = [&](int at) { return at == 0 ? 1 << depth_of(size) : at & -at; };
  const auto parent_of = [&](int at) {
    const int bit = lowest(at), up = (at ^ bit) | (bit << 1);
    return up < size ? up : at ^ bit;
  };
  if (place > 0) parent = member(parent_of(place));
  for (int at = place; at > 0; at = parent_of(at)) ++depth;
  const int half = lowest(place) / 2;
  if (place > 0 && half > 0) children.push_back(member(place - half));
  for (int below = half; below > 0; below /= 2) {
    if (place + below >= size) continue;
    children.push_back(member(place + below));
    break;
  }
}

int BinaryTree::depth_of(int size) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
}

/// Beyond this, pieces are so large that more of them gain nothing, but their messages take memory.
constexpr std::int64_t most_pieces = 4096;

int double_tree_pieces(std::int64_t elements, DType dtype, int size) {
  const double rounds = 2 * BinaryTree::depth_of(size) - 1;
  const double bytes = static_cast<double>(elements) * static_cast<double>(size_of(dtype));
  const auto best = static_cast<std::int64_t>(std::ceil(std::sqrt(2 * rounds * bytes / (1 << 18))));
  return static_cast<int>(std::max<std::int64_t>(1, std::min({best, elements / 2, most_pieces})));
}

namespace {

// Each half of the data has its own tree. A member at depth d sends piece i up in round i + D − d,
// and down in round i + D + d, so each piece moves by one level per round, and every round carries
// other pieces between the other levels.
void double_tree_all_reduce(Peers& peers, View data) {
  using Kind = Peers::Transfer::Kind;
  const int depth = BinaryTree::depth_of(peers.size());
  const int pieces = double_tree_pieces(data.elements(), data.dtype, peers.size());
  const BinaryTree trees[] = {{peers.rank(), peers.size(), false},
                              {peers.rank(), peers.size(), true}};
  std::vector<Peers::Transfer> now;
  for (int round = 0; round < pieces + 2 * depth - 1; ++round) {
    now.clear();
    for (int half = 0; half < 2; ++half) {
      const auto& [parent, children, level] = trees[half];
      const auto add = [&](Kind kind, int first_round, int peer) {
        const int piece = round - first_round;
        if (piece >= 0 && piece < pieces)
          now.push_back({kind, chunk_of(chunk_of(data, half, 2), piece, pieces), peer});
      };
      if (parent >= 0) add(Kind::send, depth - level, parent);
      for (const int child : children) add(Kind::receive_add, depth - level - 1, child);
      if (parent >= 0) add(Kind::receive, depth + level - 1, parent);
      for (const int child : children) add(Kind::send, depth + level, child);
    }
    peers.at_once(now);
  }
}

}  // namespace

// -- all of them --------------------------------------------------------------------------------

void all_reduce(Algorithm algorithm, Peers& peers, View data, int per_node) {
  if (peers.size() == 1) return;
  switch (algorithm) {
    case Algorithm::ring:
      ring_reduce_scatter(peers, data);
      return ring_all_gather(peers, data);
    case Algorithm::naive:
      return naive_all_reduce(peers, data);
    case Algorithm::tree:
      binomial_reduce(peers, data);
      return binomial_broadcast(peers, data, 0);
    case Algorithm::recursive_doubling:
      return recursive_doubling_all_reduce(peers, data);
    case Algorithm::rabenseifner:
      return rabenseifner_all_reduce(peers, data);
    case Algorithm::hierarchical:
      return hierarchical_all_reduce(peers, data, per_node > 0 ? per_node : peers.size());
    case Algorithm::double_tree:
      return double_tree_all_reduce(peers, data);
    case Algorithm::rings:
      break;
    case Algorithm::in_switch:
      return peers.add_in_switch(data);
  }
  throw std::invalid_argument("one group has one ring; Rings has several");
}

std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines, int per_node, DType dtype) {
  if (ranks == 1) return 0;
  if (algorithm == Algorithm::recursive_doubling)
    return elements;  // both partners send all elements at once
  if (combines || algorithm == Algorithm::in_switch) return 0;
  const auto part = [](std::int64_t whole, std::int64_t parts) {
    return (whole + parts - 1) / parts;
  };
  switch (algorithm) {
    case Algorithm::ring:
      return part(elements, ranks);
    case Algorithm::hierarchical:
      // With one member per node, everything happens between the nodes.
      return part(elements, per_node > 1 ? per_node : ranks);
    case Algorithm::double_tree:  // a member adds up to three pieces at once
      return 3 * part(part(elements, 2), double_tree_pieces(elements, dtype, ranks));
    default:
      return elements;
  }
}

void run(const Collective& collective, Peers& peers, View data, View in) {
  const std::span<const std::int64_t> counts{collective.counts};
  const std::size_t members = counts.size() / 2;
  switch (collective.operation) {
    case Operation::broadcast:
      return binomial_broadcast(peers, data, collective.root);
    case Operation::all_reduce:
      return all_reduce(collective.algorithm, peers, data, collective.per_node);
    case Operation::reduce_scatter:
      if (collective.per_node > 0)
        return hierarchical_reduce_scatter(peers, data, collective.per_node);
      return ring_reduce_scatter(peers, data);
    case Operation::all_gather:
      if (collective.per_node > 0) return hierarchical_all_gather(peers, data, collective.per_node);
      return ring_all_gather(peers, data);
    case Operation::gather:
      return linear_gather(peers, data, collective.root);
    case Operation::all_to_all:
      if (collective.per_node > 0) return two_hop_all_to_all(peers, data, in, collective.per_node);
      return pairwise_all_to_all(peers, data, counts.first(members), in, counts.subspan(members));
    case Operation::barrier:
      return dissemination_barrier(peers);
    case Operation::send:
      break;
  }
  throw std::logic_error("send is not a collective");
}

}  // namespace lockstep
