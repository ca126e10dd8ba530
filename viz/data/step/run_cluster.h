#pragma once

#include <optional>

#include "core/time/cluster.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// Returns the cluster that a trace describes or names, or nothing if it does neither. Treats the
/// name as that of a preset, never of a file, because the trace may come from anyone.
std::optional<Cluster> described_cluster(const RunInfo& run);
/// Returns the cluster that the run's clock simulates. Real clocks run on machines that the trace
/// does not describe.
std::optional<Cluster> simulated_cluster(const RunInfo& run);

}  // namespace lockstep::viz
