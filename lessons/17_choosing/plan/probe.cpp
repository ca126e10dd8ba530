#include "lessons/17_choosing/plan/probe.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lessons/17_choosing/plan/evaluate.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;

/// The duration of the shortest action of a category, as a lower bound: in a long step, ranks are
/// out of step, and may wait less for one another than in the first microbatches.
Picoseconds least_duration(const Replay& replay, int rank, Category category) {
  Picoseconds least = std::numeric_limits<Picoseconds>::max(), begin = 0, kernels = 0;
  std::vector<bool> open;
  const auto& sections = replay.run().ranks[static_cast<std::size_t>(rank)].sections;
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (sections[i].step == 0)
      replay.visit(rank, i, [&](const Replay::Timed& each) {
        if (each.operation.kind == Kind::kernel) {
          kernels += each.end - each.start;
        } else if (each.operation.kind == Kind::begin) {
          open.push_back(each.operation.category == category);
          if (!open.back()) return;
          begin = each.start;
          kernels = 0;
        } else if (each.operation.kind == Kind::end) {
          const Picoseconds waits = each.end - begin - kernels;
          if (open.back()) least = std::min(least, kernels + waits * 9 / 10);
          open.pop_back();
        }
      });
  return least;
}

/// The costs of the first and of the last of two stages, each with `blocks` blocks.
std::pair<PartCosts, PartCosts> stages_with(int blocks, TrainingTask task,
                                            Configuration configuration) {
  // The experts' ranks, in whole groups along cp.
  const int dp = std::lcm(configuration.ep, configuration.cp) / configuration.cp;
  configuration.dp = dp;
  configuration.pp = 2;
  configuration.zero = 0;
  configuration.schedule = "1f1b";
  configuration.chunks = 1;
  task.model.layers = 2 * blocks;
  // Two microbatches, because replicas sum gradients beside the backward pass of the last one.
  task.batch = dp * configuration.microbatch * 2;
  task.ranks = configuration.ranks();
  const PlannedRun run = planned_run(task, configuration);
  std::map<int, DryFigures> figures;
  const RunOperations operations = record_step(run, folding_of(run), &figures);
  const Scenario scenario{operations.modelled};
  const Replay replay{operations, scenario};
  PartCosts costs[2];
  for (const bool last : {false, true}) {
    PartCosts& stage = costs[last ? 1 : 0];
    stage.forward = stage.backward = stage.update = std::numeric_limits<Picoseconds>::max();
    stage.activations = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, dry] : figures) {
      if ((run.plan.mesh.coordinate(rank, Axis::pp) == 1) != last) continue;
      // Takes the minimum over all ranks, so that these are lower bounds.
      const auto keep_least = [](auto& least, auto value) { least = std::min(least, value); };
      keep_least(stage.forward, least_duration(replay, operations.folding.representative(rank),
                                               Category::forward));
      keep_least(stage.backward, least_duration(replay, operations.folding.representative(rank),
                                                Category::backward));
      keep_least(
          stage.update,
          parts_of(replay, operations.folding.representative(rank), 0, run.plan.mesh).optimizer);
      keep_least(stage.activations, dry.peak.of(MemoryCategory::activations));
      stage.parameters = dry.peak.of(MemoryCategory::parameters);
      stage.gradients = dry.peak.of(MemoryCategory::gradients);
      stage.optimizer = dry.peak.of(MemoryCategory::optimizer);
    }
  }
  return {costs[0], costs[1]};
}

}  // namespace

PartCosts& PartCosts::operator+=(const PartCosts& other) {
  forward += other.forward;
  backward += other.backward;
  update += other.update;
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  activations += other.activations;
  return *this;
}

PartCosts PartCosts::times(std::int64_t count) const {
  return {forward * count,   backward * count,  update * count,     parameters * count,
          gradients * count, optimizer * count, activations * count};
}

PartCosts PartCosts::minus(const PartCosts& other) const {
  PartCosts difference = other.times(-1);
  difference += *this;
  return difference;
}

ModelCosts model_costs(const TrainingTask& task, const Configuration& configuration) {
  const auto [first_of_one, last_of_one] = stages_with(1, task, configuration);
  const auto [first_of_two, last_of_two] = stages_with(2, task, configuration);
  ModelCosts costs;
  const PartCosts first = first_of_two.minus(first_of_one), last = last_of_two.minus(last_of_one);
  costs.embedding = first_of_one.minus(first);
  costs.head = last_of_one.minus(last);
  costs.block = first;
  // A stage whose tp ranks are on two nodes takes longer, and no such stage may be in the run.
  costs.block.forward = std::min(first.forward, last.forward);
  costs.block.backward = std::min(first.backward, last.backward);
  // The first stage holds both microbatches, the last one only one at a time.
  costs.block.activations = last.activations;
  // Other memory of these stages is needed only while a microbatch passes, not once for each
  // microbatch in flight.
  costs.embedding.activations = costs.head.activations = 0;
  return costs;
}

}  // namespace lockstep
