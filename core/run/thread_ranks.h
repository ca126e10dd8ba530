#pragma once

#include <memory>
#include <vector>

#include "core/comm/threads_transport.h"
#include "core/run/rank.h"

namespace lockstep {

/// Where ranks go that are threads of this process: they take its GPUs in turn, if options say so.
/// Throws UsageError where there are none.
GpuPlan plan_threads(const Options& options);

/// All ranks of `fabric`, made at once, since on GPUs they wait for one another. The first that
/// can't be made says why: throws what it threw. They are good for use by a thread each.
std::vector<std::unique_ptr<Rank>> make_ranks(const Options& options, ThreadFabric& fabric,
                                              const GpuPlan& plan);

}  // namespace lockstep
