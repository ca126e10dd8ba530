#include "viz/data/step/run_cluster.h"

#include "core/base/error.h"
#include "core/time/cluster_file.h"

namespace lockstep::viz {

std::optional<Cluster> described_cluster(const RunInfo& run) {
  try {
    if (!run.cluster_description.empty())
      return parse_cluster(run.cluster_description, "cluster_description");
  } catch (const UsageError&) {
    return std::nullopt;
  }
  return cluster_preset(run.cluster);
}

std::optional<Cluster> simulated_cluster(const RunInfo& run) {
  return run.clock == "modelled" ? described_cluster(run) : std::nullopt;
}

}  // namespace lockstep::viz
