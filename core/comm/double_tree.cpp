#include "core/comm/double_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep {

BinaryTree::BinaryTree(int rank, int size, bool second) {
  const auto mirrored = [&](int i) {  // between members and places, either way
    return size - 1 - i;
  };
  const int place = !second ? rank : size % 2 == 0 ? mirrored(rank) : (rank + size - 1) % size;
  const auto member = [&](int at) {
    return !second ? at : size % 2 == 0 ? mirrored(at) : (at + 1) % size;
  };
  // The lowest set bit of a place gives its level. Its parent is the middle of the next level's
  // range that contains the place, or, if no such place exists, the place at which its own range
  // begins.
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

namespace {

/// Data this large gains nothing from more pieces, but their messages would take memory.
constexpr std::int64_t most_pieces = 4096;

}  // namespace

int double_tree_pieces(std::int64_t elements, DType dtype, int size) {
  const double rounds = 2 * BinaryTree::depth_of(size) - 1;
  const double bytes = static_cast<double>(elements) * static_cast<double>(size_of(dtype));
  const auto best = static_cast<std::int64_t>(std::ceil(std::sqrt(2 * rounds * bytes / (1 << 18))));
  return static_cast<int>(std::max<std::int64_t>(1, std::min({best, elements / 2, most_pieces})));
}

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

}  // namespace lockstep
