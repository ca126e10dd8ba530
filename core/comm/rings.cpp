#include "core/comm/rings.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/comm/between_nodes.h"

namespace lockstep {

int Rings::channels_taken(const std::vector<int>& ranks, int ranks_per_node) {
  return Group::channels_taken * std::max(1, members_per_node(ranks, ranks_per_node));
}

std::vector<int> Rings::order(const std::vector<int>& ranks, int per_node, int r) {
  std::vector<int> order;
  const int size = static_cast<int>(ranks.size());
  for (int i = 0; i < size; ++i) {
    const int member = per_node == 0 ? i : i / per_node * per_node + (i + r) % per_node;
    order.push_back(ranks[static_cast<std::size_t>(member)]);
  }
  return order;
}

Rings::Rings(Endpoint endpoint, const std::vector<int>& ranks, const std::string& name,
             int channels) {
  const int ranks_per_node = endpoint.device.compute.clock().cluster().ranks_per_node;
  const int per_node = members_per_node(ranks, ranks_per_node);
  for (int r = 0; r < std::max(1, per_node); ++r)
    groups_.push_back(std::make_unique<Group>(endpoint, order(ranks, per_node, r),
                                              fmt::format("{} {}", name, r),
                                              channels + r * Group::channels_taken));
}

int Rings::rings_for(std::int64_t elements, int ranks, int rings) {
  return static_cast<int>(std::clamp<std::int64_t>(elements / ranks, 1, rings));
}

Rings::InFlight Rings::all_reduce(View data, std::source_location where) const {
  const int rings = rings_for(data.elements(), groups_[0]->size(), count());
  InFlight sums;
  for (int r = 0; r < rings; ++r)
    sums.works.push_back(groups_[static_cast<std::size_t>(r)]->all_reduce(chunk_of(data, r, rings),
                                                                          Algorithm::ring, where));
  return sums;
}

}  // namespace lockstep
