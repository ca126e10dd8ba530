#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/group.h"

namespace lockstep {

/// Several rings over the same ranks, which sum parts of the data at the same time
/// (Algorithm::rings). A node has a network card per rank, but a single ring leaves and enters each
/// node through one of them. With g ranks per node, ring r visits the members of each node in the
/// order r, r + 1, ..., r - 1 (modulo g), so every member is the last of its node in one ring. Each
/// ring is a Group with its own stream. If all ranks are on one node, or if they form no equal
/// blocks per node, there is one ring.
class Rings {
 public:
  /// The number of channels that the rings of these ranks use. `ranks_per_node` is the cluster's.
  static int channels_taken(const std::vector<int>& ranks, int ranks_per_node);
  /// The members of ring r, in the order of the ring.
  static std::vector<int> order(const std::vector<int>& ranks, int per_node, int r);
  /// `channels` is the first of channels_taken() numbers from Transport::open_channels(). All
  /// members pass the same arguments. Each ring's group is called `name`, followed by the ring's
  /// number.
  Rings(Endpoint endpoint, const std::vector<int>& ranks, const std::string& name, int channels);

  int count() const { return static_cast<int>(groups_.size()); }

  /// The all-reduces of all rings.
  struct InFlight {
    std::vector<Work> works;
    void wait() {
      for (Work& each : works) each.wait();
    }
  };
  /// The number of rings that share n elements: as many as have an element for each member, but at
  /// least one.
  static int rings_for(std::int64_t elements, int ranks, int rings);
  /// Leaves the sum over all members on every member: ring r sums chunk r of the data.
  InFlight all_reduce(View data,
                      std::source_location where = std::source_location::current()) const;

 private:
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace lockstep
