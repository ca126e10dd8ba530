#include "lessons/17_choosing/plan/bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/plan/stage_layers.h"
#include "lessons/17_choosing/prediction.h"

namespace lockstep {

LowerBounds lower_bounds(const TrainingTask& task, const Configuration& configuration,
                         const ModelCosts& costs) {
  const KnownSchedule& known = *find_schedule(configuration.schedule);
  const int m = configuration.microbatches(task.batch);
  const PipelineSize size{configuration.pp, configuration.chunks, m};
  const std::vector<int> rank_of_stage = placement_of(known, size);
  const std::vector<int> blocks = even_split(task.model, size.stages());
  const bool splits = splits_backward(known.generate(
      PipelineSize{2, known.least_chunks, 2 * std::max(2, known.least_microbatches_per_rank)}));
  const std::int64_t replicas = static_cast<std::int64_t>(configuration.dp) * configuration.cp;
  const auto shared = [&](std::int64_t amount, int from_stage) {
    return configuration.zero >= from_stage ? amount / replicas : amount;
  };

  std::vector<PartCosts> stages;
  for (int stage = 0; stage < size.stages(); ++stage) {
    PartCosts& part =
        stages.emplace_back(costs.block.times(blocks[static_cast<std::size_t>(stage)]));
    if (stage == 0) part += costs.embedding;
    if (stage + 1 == size.stages()) part += costs.head;
  }
  LowerBounds bounds;
  for (int rank = 0; rank < configuration.pp; ++rank) {
    PartCosts mine;
    Picoseconds before = 0, after = 0;  // the first stage of the rank
    std::int64_t least_stage = std::numeric_limits<std::int64_t>::max();  // activations
    bool found = false, has_last = false;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      if (rank_of_stage[stage] == rank) {
        mine += stages[stage];
        least_stage = std::min(least_stage, stages[stage].activations);
        found = true;
        has_last = stage + 1 == stages.size();
      } else if (!found) {
        before += stages[stage].forward;
        after += stages[stage].backward;
      }
    }
    // A rank that holds both ends of a tied model holds one table; the rest of the head is small.
    if (task.model.tied && has_last && rank_of_stage[0] == rank) {
      mine.parameters -= costs.head.parameters;
      mine.gradients -= costs.head.gradients;
      mine.optimizer -= costs.head.optimizer;
      mine.update -= costs.head.update;
    }
    // A schedule that splits backward passes can compute gradients of weights meanwhile.
    const Picoseconds update =
        splits ? 0 : shared(rank_of_stage[0] == rank ? mine.update : stages[0].update, 1);
    const double step = static_cast<double>(before) +
                        m * static_cast<double>(mine.forward + mine.backward) +
                        static_cast<double>((splits ? 0 : after) + update);
    constexpr double most = 4e18;  // a step that takes longer can't be replayed
    bounds.step =
        std::max(bounds.step, static_cast<Picoseconds>(std::min(step, most) * (1 - 1e-12)));
    const std::int64_t activations = least_stage * known.live(size, rank);
    bounds.memory = std::max(bounds.memory, shared(mine.parameters, 3) + shared(mine.gradients, 2) +
                                                shared(mine.optimizer, 1) + activations);
  }
  return bounds;
}

}  // namespace lockstep
