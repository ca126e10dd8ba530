#include "core/run/options/options.h"

#include <fmt/format.h>
#include <sched.h>

#include "core/base/error.h"

namespace lockstep {

Clock Options::clock(int rank) const {
  Clock clock = plan.clock(rank, platform.pace);
  clock.set_start_nanoseconds(platform.start_nanoseconds);
  return clock;
}

void check_size(const Cluster& cluster, int ranks) {
  if (ranks > cluster.nodes * cluster.ranks_per_node)
    throw UsageError(fmt::format("--ranks {}: cluster '{}' has only {} nodes of {} ranks", ranks,
                                 cluster.name, cluster.nodes, cluster.ranks_per_node));
}

Cluster cluster_for(const std::string& name, int ranks) {
  Cluster cluster = Cluster::load(name);
  check_size(cluster, ranks);
  return cluster;
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace lockstep
