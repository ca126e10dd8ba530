#include "core/comm/shared/folded_links.h"

#include <utility>

namespace lockstep {

namespace {

/// Returns the number of the rank's node, and the ids of the resources that its messages use.
std::vector<std::uint64_t> used_by(int rank, const Cluster& cluster) {
  std::vector<std::uint64_t> used{static_cast<std::uint64_t>(rank / cluster.ranks_per_node)};
  if (cluster.shared)
    for (const auto& resource : cluster.shared->of_rank(rank, cluster.ranks_per_node))
      used.push_back(resource.id);
  return used;
}

}  // namespace

bool is_symmetric(const Folding& folding, const Cluster& cluster, int ranks) {
  if (folding.folds() && !cluster.groups.empty())
    for (int rank = 0; rank < ranks; ++rank)
      if (cluster.group_of(rank) != cluster.group_of(folding.representative(rank))) return false;
  for (const Folding::Axis& axis : folding.axes()) {
    const auto& [stride, size, step] = axis;
    // The resource to which a shift by one step maps each resource, and the inverse map.
    std::unordered_map<std::uint64_t, std::uint64_t> to, from;
    for (int rank = 0; rank < ranks; ++rank) {
      const int place = rank / stride % size;
      const int shifted = rank + ((place + step) % size - place) * stride;
      const auto mine = used_by(rank, cluster), its = used_by(shifted, cluster);
      if (mine.size() != its.size()) return false;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        // Nodes come first, and are numbered separately from the resources.
        const std::uint64_t kind = i == 0 ? std::uint64_t{1} << 63 : 0;
        if (to.try_emplace(mine[i] | kind, its[i]).first->second != its[i]) return false;
        if (from.try_emplace(its[i] | kind, mine[i]).first->second != mine[i]) return false;
      }
    }
  }
  return true;
}

FoldedLinks::FoldedLinks(const Folding& folding, const Cluster& cluster, int ranks) {
  if (!folding.folds()) return;
  for (int rank = 0; rank < ranks; ++rank) {
    const int stands_for_it = folding.representative(rank);
    const auto mine = cluster.shared->of_rank(rank, cluster.ranks_per_node);
    const auto its = cluster.shared->of_rank(stands_for_it, cluster.ranks_per_node);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      Found& found = found_[mine[i].id];
      if (found.times == 0 || stands_for_it < found.rank) found = {stands_for_it, its[i].id, 0};
      if (stands_for_it == found.rank) ++found.times;
    }
  }
}

FoldedLinks::Resource FoldedLinks::representative(const SharedLinks::Resource& resource) const {
  const auto found = found_.find(resource.id);
  if (found == found_.end()) return {resource, 1};
  return {{found->second.id, resource.bandwidth}, found->second.times};
}

}  // namespace lockstep
