#pragma once

#include <cstdint>
#include <vector>

#include "core/comm/transport/peers.h"

namespace lockstep {

/// A binary tree over all members. Members at even places have children, members at odd places are
/// leaves, and member 0 is the root. The second tree reverses the places if their number is even,
/// and shifts them by one if it is odd, so that at most one member has children in both trees
/// (Sanders, Speck, Träff 2009; the shape of the tree is NCCL's).
struct BinaryTree {
  BinaryTree(int rank, int size, bool second);
  int parent = -1;            ///< a member; -1 for the root
  std::vector<int> children;  ///< up to two members
  int depth = 0;              ///< of this member; 0 for the root
  /// Returns the depth of the whole tree, ⌈log₂N⌉.
  static int depth_of(int size);
};
/// Returns the number m of pieces of each half of the data in a double tree. It minimizes the time
/// of m + 2D − 1 rounds of α + 2nβ/m each, on links with α/β = 2^18 B (10 µs at 26 GB/s): m is the
/// square root of 2(2D − 1)n/2^18 B, rounded up, but at most the number of elements of a half, and
/// between 1 and 4,096.
int double_tree_pieces(std::int64_t elements, DType dtype, int size);

/// Leaves the sum over all members on every member: each half of the data goes up and down its own
/// tree, in pieces. For its time, see Algorithm::double_tree.
void double_tree_all_reduce(Peers& peers, View data);

}  // namespace lockstep
