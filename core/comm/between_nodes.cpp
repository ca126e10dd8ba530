#include "core/comm/between_nodes.h"

#include <set>
#include <stdexcept>

#include "core/comm/algorithms.h"

namespace lockstep {

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

/// A group of every `stride`-th member of another group, which carries its messages.
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
/// The members with the same place in their nodes as this member.
Subset rail_of(Peers& peers, int per_node) {
  return {peers, peers.rank() % per_node, per_node, peers.size() / per_node};
}

/// The chunks of the members at this place in their nodes, which their rail sums or gathers.
std::vector<View> chunks_of_rail(View data, int place, const Peers& all, int per_node) {
  std::vector<View> chunks;
  for (int member = place; member < all.size(); member += per_node)
    chunks.push_back(chunk_of(data, member, all.size()));
  return chunks;
}

/// One step of a ring within the node: passes on the chunks of one rail, and receives those of
/// another rail.
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

void hierarchical_all_reduce(Peers& peers, View data, int per_node) {
  Subset node = node_of(peers, per_node);
  Subset rail = rail_of(peers, per_node);
  ring_reduce_scatter(node, data);
  const View own = chunk_of(data, node.rank(), node.size());
  ring_reduce_scatter(rail, own);
  ring_all_gather(rail, own);
  ring_all_gather(node, data);
}

// Like ring_reduce_scatter, first within the node on the chunks of whole rails, and then along this
// member's rail.
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

}  // namespace lockstep
