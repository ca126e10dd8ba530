#include "core/run/options/options.h"

#include <fmt/format.h>
#include <sched.h>

#include "core/base/error.h"
#include "core/model/builder.h"

namespace lockstep {

Plan Options::plan() const {
  Plan plan{run.model, run.mesh()};
  if (!run.rank_of_stage.empty()) plan.rank_of_stage = run.rank_of_stage;
  plan.split = run.split;
  plan.batch = {
      .sequences = run.batch, .microbatches = run.microbatches.front(), .context = run.context};
  plan.optimizer = run.optimizer;
  plan.seed = run.seed;
  const Clock& clock = platform.clock;
  if (clock.is_modelled()) plan.modelled = {clock.cluster(), clock.times()};
  plan.collectives = platform.comm;
  plan.receives_combine = platform.launch == Launch::threads;
  set_model(plan, run.model, run.builder);
  return plan;
}

Plan Options::plan_of_one_device() const {
  Options one = *this;
  one.run.ranks = one.run.dp = one.run.pp = one.run.cp = one.run.tp = one.run.ep = 1;
  one.run.rank_of_stage.clear();
  one.run.split.clear();
  return one.plan();
}

Cluster cluster_for(const std::string& name, int ranks) {
  Cluster cluster = Cluster::load(name);
  if (ranks > cluster.nodes * cluster.ranks_per_node)
    throw UsageError(fmt::format("--ranks {}: cluster '{}' has only {} nodes of {} ranks", ranks,
                                 cluster.name, cluster.nodes, cluster.ranks_per_node));
  return cluster;
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace lockstep
