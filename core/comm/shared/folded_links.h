#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/operations/folding.h"
#include "core/time/cluster.h"

namespace lockstep {

/// Whether the cluster looks the same to all ranks that the folding takes to one another: the
/// shifts take the ranks of a node to those of a node, and likewise those of a network card and of
/// a leaf switch. The run has `ranks` ranks.
bool is_symmetric(const Folding& folding, const Cluster& cluster, int ranks);

/// The links of a folded run. Resources that shifts take to one another carry the same messages, so
/// one stands for all. If shifts take a resource to itself, as the uplink of a node whose ranks are
/// equal, each message of a representative stands for several that pass it.
class FoldedLinks {
 public:
  FoldedLinks() = default;
  /// `cluster` shares links, and is_symmetric().
  FoldedLinks(const Folding& folding, const Cluster& cluster, int ranks);

  struct Resource {
    SharedLinks::Resource shared;
    int times = 1;  ///< how many messages one message stands for
  };
  /// Returns the resource that stands for this one.
  Resource representative(const SharedLinks::Resource& resource) const;

 private:
  struct Found {
    int rank = 0;  ///< the lowest representative of those that use the resource
    std::uint64_t id = 0;
    int times = 0;
  };
  std::unordered_map<std::uint64_t, Found> found_;  ///< by id; none if nothing is folded
};

}  // namespace lockstep
