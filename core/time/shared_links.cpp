#include "core/time/shared_links.h"

#include <algorithm>

namespace lockstep {

namespace {

enum class Kind : std::uint64_t { port, card, uplink, leaf };

/// Numbers the resources of a kind: `index` counts them, and each has two directions.
std::uint64_t number(Kind kind, std::uint64_t index, bool into) {
  return (static_cast<std::uint64_t>(kind) << 60) | (index << 1) | (into ? 1 : 0);
}

}  // namespace

std::vector<SharedLinks::Resource> SharedLinks::route(int from, int to, int ranks_per_node) const {
  std::vector<Resource> passed;
  const auto pass = [&](Kind kind, std::uint64_t index, bool into, double bandwidth) {
    if (bandwidth < unlimited) passed.push_back({number(kind, index, into), bandwidth});
  };
  const auto index = [](int value) { return static_cast<std::uint64_t>(value); };
  const int source = from / ranks_per_node, destination = to / ranks_per_node;  // nodes
  if (source == destination) {
    pass(Kind::port, index(from), false, port);
    pass(Kind::port, index(to), true, port);
    return passed;
  }

  const auto card_of = [&](int rank) {
    return cards ? cards->of_rank[index(rank % ranks_per_node)] : 0;
  };
  const int per_node = cards ? cards->per_node : 1;
  const double card = cards ? cards->bandwidth : unlimited;
  const auto card_number = [&](int node, int rank) {
    return index(node) * index(per_node) + index(card_of(rank));
  };
  pass(Kind::card, card_number(source, from), false, card);
  pass(Kind::uplink, index(source), false, uplink);
  if (leaves) {
    const bool by_rail = leaves->by_rail && cards;
    const double node = std::min(card * per_node, uplink);
    const double below = leaves->nodes * (by_rail ? std::min(card, uplink) : node);
    const auto leaf_of = [&](int at, int rank) {
      const std::uint64_t leaf = index(at / leaves->nodes);
      return by_rail ? leaf * index(per_node) + index(card_of(rank)) : leaf;
    };
    const std::uint64_t up = leaf_of(source, from), down = leaf_of(destination, to);
    if (up != down) {
      pass(Kind::leaf, up, false, below / leaves->oversubscription);
      pass(Kind::leaf, down, true, below / leaves->oversubscription);
    }
  }
  pass(Kind::uplink, index(destination), true, uplink);
  pass(Kind::card, card_number(destination, to), true, card);
  return passed;
}

}  // namespace lockstep
