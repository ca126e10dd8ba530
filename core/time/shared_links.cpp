#include "core/time/shared_links.h"

#include <algorithm>

namespace lockstep {

namespace {

enum class LinkKind : std::uint64_t { port, card, uplink, leaf };

/// Numbers the resources of a kind: `index` counts them, and each has two directions.
std::uint64_t number(LinkKind kind, std::uint64_t index, bool into) {
  return (static_cast<std::uint64_t>(kind) << 60) | (index << 1) | (into ? 1 : 0);
}

/// The numbers of the resources that a rank uses.
struct Place {
  std::uint64_t node, card, leaf;
};

Place place_of(const SharedLinks& links, int rank, int ranks_per_node) {
  const auto index = [](int value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t node = index(rank / ranks_per_node);
  std::uint64_t card = 0, per_node = 1, leaf = 0;
  if (links.cards) {
    per_node = index(links.cards->per_node);
    card = index(links.cards->of_rank[index(rank % ranks_per_node)]);
  }
  if (links.leaves) {
    leaf = node / index(links.leaves->nodes);
    if (links.leaves->by_rail && links.cards) leaf = leaf * per_node + card;
  }
  return {node, node * per_node + card, leaf};
}

/// The bandwidth of a leaf's link to the spine.
double leaf_bandwidth(const SharedLinks& links) {
  const int per_node = links.cards ? links.cards->per_node : 1;
  const double card = links.cards ? links.cards->bandwidth : SharedLinks::unlimited;
  const double node = std::min(card * per_node, links.uplink);
  const bool by_rail = links.leaves->by_rail && links.cards;
  return links.leaves->nodes * (by_rail ? std::min(card, links.uplink) : node) /
         links.leaves->oversubscription;
}

/// Adds a resource of limited bandwidth.
void pass(std::vector<SharedLinks::Resource>& passed, LinkKind kind, std::uint64_t index, bool into,
          double bandwidth) {
  if (bandwidth < SharedLinks::unlimited) passed.push_back({number(kind, index, into), bandwidth});
}

}  // namespace

std::vector<SharedLinks::Resource> SharedLinks::route(int from, int to, int ranks_per_node) const {
  std::vector<Resource> passed;
  const Place source = place_of(*this, from, ranks_per_node),
              destination = place_of(*this, to, ranks_per_node);
  if (source.node == destination.node) {
    pass(passed, LinkKind::port, static_cast<std::uint64_t>(from), false, port);
    pass(passed, LinkKind::port, static_cast<std::uint64_t>(to), true, port);
    return passed;
  }
  const double card = cards ? cards->bandwidth : unlimited;
  pass(passed, LinkKind::card, source.card, false, card);
  pass(passed, LinkKind::uplink, source.node, false, uplink);
  if (leaves && source.leaf != destination.leaf) {
    pass(passed, LinkKind::leaf, source.leaf, false, leaf_bandwidth(*this));
    pass(passed, LinkKind::leaf, destination.leaf, true, leaf_bandwidth(*this));
  }
  pass(passed, LinkKind::uplink, destination.node, true, uplink);
  pass(passed, LinkKind::card, destination.card, true, card);
  return passed;
}

std::vector<SharedLinks::Resource> SharedLinks::of_rank(int rank, int ranks_per_node) const {
  std::vector<Resource> used;
  const Place place = place_of(*this, rank, ranks_per_node);
  for (const bool into : {false, true}) {
    pass(used, LinkKind::port, static_cast<std::uint64_t>(rank), into, port);
    pass(used, LinkKind::card, place.card, into, cards ? cards->bandwidth : unlimited);
    pass(used, LinkKind::uplink, place.node, into, uplink);
    if (leaves) pass(used, LinkKind::leaf, place.leaf, into, leaf_bandwidth(*this));
  }
  return used;
}

}  // namespace lockstep
