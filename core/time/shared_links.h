#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace lockstep {

/// The resources that the messages of a cluster's ranks share. Bandwidths are bytes per second and
/// direction; infinite means that nothing is shared there. A message within a node passes the two
/// ranks' ports. A message between nodes passes a network card and the uplink of each node and, if
/// the nodes are below different leaf switches, the leaves' links to the spine.
struct SharedLinks {
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  double port = unlimited;  ///< of each rank, into the switch of its node
  struct Cards {
    int per_node = 1;
    double bandwidth = unlimited;  ///< of one card
    /// By place in the node: the card that this rank uses. Cards with the same number form a rail.
    std::vector<int> of_rank;
    bool operator==(const Cards&) const = default;
  };
  std::optional<Cards> cards{};
  double uplink = unlimited;  ///< of each node
  /// Leaf switches: each connects `nodes` nodes, or one rail of them. The link from a leaf to the
  /// spine has the bandwidth of everything below the leaf, divided by `oversubscription`.
  struct Leaves {
    int nodes = 1;
    bool by_rail = false;
    double oversubscription = 1;
    bool operator==(const Leaves&) const = default;
  };
  std::optional<Leaves> leaves{};
  /// Factor on the time of a kernel that starts while a collective of its rank is in flight,
  /// because the collective uses processors and memory bandwidth.
  double kernels_beside_collectives = 1;

  bool operator==(const SharedLinks&) const = default;

  /// A resource that messages share.
  struct Resource {
    std::uint64_t id = 0;  ///< its number; the same for all messages that pass it
    double bandwidth = 0;
  };
  /// Returns the resources that a message between two ranks passes, in order. Cards::of_rank has
  /// `ranks_per_node` entries.
  std::vector<Resource> route(int from, int to, int ranks_per_node) const;
  /// Returns the resources that messages from or to a rank may pass on its side.
  std::vector<Resource> of_rank(int rank, int ranks_per_node) const;
};

}  // namespace lockstep
