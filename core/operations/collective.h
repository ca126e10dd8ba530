#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/operation.h"
#include "kernels/view.h"

namespace lockstep {

/// An all-reduce algorithm. Each comment gives the algorithm's time for n bytes on N ranks if a
/// message of n bytes takes α + nβ (Thakur, Rabenseifner, Gropp 2005). P is the largest power of
/// two ≤ N. r is 0 if P = N. Otherwise r is 1, because N − P ranks first send their elements to a
/// partner, and receive the sums from it at the end. On k nodes of g ranks (N = kg), α and β are
/// those of a link within a node, α' and β' those between nodes. D is ⌈log₂N⌉, m a number of
/// pieces.
enum class Algorithm : std::uint8_t {
  ring,   ///< 2(N−1)(α + ⌈n/N⌉β): fewest bytes, but 2(N−1) rounds
  naive,  ///< 2α + 2(N−1)nβ: all send to member 0, which adds, then sends the sums back
  tree,   ///< up to 2⌈log₂N⌉(α + nβ): reduces up a binomial tree, then broadcasts down it
  recursive_doubling,  ///< (log₂P + 2r)(α + nβ) at most: fewest rounds; messages are full size
  rabenseifner,  ///< 2log₂P α + 2((P−1)/P)nβ + 2r(α + nβ): recursive halving, then doubling
  hierarchical,  ///< 2(g−1)(α + ⌈n/g⌉β) + 2(k−1)(α' + ⌈n/N⌉β'): rings in the nodes, then between
  double_tree,  ///< about (m + 2D − 1)(α + 2nβ/m): up and down two binary trees, in pieces
  rings,        ///< a ring per network card, each with its own stream; only Rings (rings.h) runs it
  in_switch,  ///< α + nβ of Cluster::in_switch: the switch adds (only a cost, on the meta device)
};
const char* name_of(Algorithm algorithm);
/// Looks up an algorithm by name; words may be separated by - or _. Throws UsageError with the list
/// of names.
Algorithm algorithm_of(const std::string& name);
/// The algorithms that every Group can run on every device.
constexpr Algorithm all_reduce_algorithms[] = {
    Algorithm::ring,         Algorithm::naive,
    Algorithm::tree,         Algorithm::recursive_doubling,
    Algorithm::rabenseifner, Algorithm::hierarchical,
    Algorithm::double_tree};
/// All names that algorithm_of() knows.
constexpr Algorithm all_algorithms[] = {Algorithm::ring,         Algorithm::naive,
                                        Algorithm::tree,         Algorithm::recursive_doubling,
                                        Algorithm::rabenseifner, Algorithm::hierarchical,
                                        Algorithm::double_tree,  Algorithm::rings,
                                        Algorithm::in_switch};

/// One member's part in a collective, without its data: everything that determines the messages
/// that the member exchanges.
struct Collective {
  Operation operation = Operation::barrier;
  Algorithm algorithm = Algorithm::ring;  ///< for operations that have several
  DType dtype = DType::f32;
  int root = -1;              ///< of a broadcast or a gather: a member
  std::int64_t elements = 0;  ///< of the whole data; of an all_to_all, in `counts`
  /// For an all_to_all: by member, the number of elements sent to it, then the number received from
  /// it.
  std::vector<std::int64_t> counts{};
  /// Who chose the algorithm: the caller, or with_default_algorithm(), with or without in_switch
  /// among its candidates. If the operation is timed on another cluster, that function chooses
  /// again.
  enum class Choice : std::uint8_t { given, by_cost, by_cost_or_switch };
  Choice choice = Choice::given;
  /// For an algorithm that distinguishes nodes (hierarchical, or an all_to_all in two hops): member
  /// m is on the group's node m / per_node. If 0, all members are on one node, or the algorithm
  /// does not distinguish nodes.
  int per_node = 0;

  bool operator==(const Collective&) const = default;
};
const char* name_of(Collective::Choice choice);

}  // namespace lockstep
