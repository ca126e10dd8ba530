#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/operations/folding.h"
#include "core/time/cluster.h"

namespace lockstep {

/// Whether the cluster looks the same to all ranks that the folding maps to one another: the shifts
/// map the ranks of a node to the ranks of one node, and likewise for network cards and leaf
/// switches. `ranks` is the number of ranks of the run.
bool is_symmetric(const Folding& folding, const Cluster& cluster, int ranks);

/// The links of a folded run. Resources that shifts map to one another carry the same messages, so
/// one resource represents all of them. If shifts map a resource to itself, such as the uplink of a
/// node whose ranks are equal, each message of a representative stands for several messages on that
/// resource.
class FoldedLinks {
 public:
  FoldedLinks() = default;
  /// `cluster` must have shared links, and must be symmetric (is_symmetric()).
  FoldedLinks(const Folding& folding, const Cluster& cluster, int ranks);

  struct Resource {
    SharedLinks::Resource shared;
    int times = 1;  ///< how many messages one message stands for
  };
  /// Returns the resource that stands for this one.
  Resource representative(const SharedLinks::Resource& resource) const;

 private:
  struct Found {
    int rank = 0;  ///< the lowest-numbered representative that uses the resource
    std::uint64_t id = 0;
    int times = 0;
  };
  std::unordered_map<std::uint64_t, Found> found_;  ///< by id; none if nothing is folded
};

}  // namespace lockstep
