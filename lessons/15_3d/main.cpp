#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/15_3d/experiment/axis_traffic.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/15_3d/replicas.h"
#include "lessons/15_3d/three_axes.h"

using namespace lockstep;

// Three techniques on one mesh of dp x pp x tp ranks. Each works within its own axis and does not
// know of the others: tp ranks share every layer, pp ranks have successive stages, and dp ranks
// have the same stage, in copies or in shards, and different samples.
int main(int argc, char** argv) {
  Lesson lesson{three_axes("15 3D", "How do data, pipeline and tensor parallelism work together?"),
                argc, argv};
  const Flags3D flags{lesson};
  lesson.build([&](const Options&) { return builder_of(flags.chosen()); });

  return lesson.run([&](Rank& rank) {
    const Composition chosen = flags.chosen();
    Group& stages = rank.group(Axis::pp);
    const int shards = chosen.shards(rank.place);
    // Lesson 6 or 7 along tp, lesson 2, 3, 4 or 5 along dp, and lesson 9 along pp.
    Gpt stage{rank.plan, rank.place, rank.device, storage_of(chosen), &rank.groups};
    Replicas replicas{stage, rank.endpoint, rank.groups, rank.plan, rank.place, chosen};
    AdamW& optimizer = replicas.adamw();
    lesson.load(rank, replicas.held(), optimizer);
    PipelineUpdate update{rank.endpoint, stages, rank.plan, {&stage}, optimizer, shards};
    rank.trace.metadata("plan", rank.plan.json(rank.place));

    for (const Phase& phase : lesson.phases()) {
      const int m = phase.microbatches;
      const Schedule schedule = one_f_one_b(stages.size(), m);
      const Predicted predicted = predict_3d(rank.plan, rank.place, schedule, chosen);
      PipelineExecutor pipeline{
          rank.endpoint, stages, schedule, {&stage}, boundary_of(rank.plan, m, chosen)};

      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        replicas.zero_gradients();
        // Along tp, layers exchange their terms in every action; along pp, stages exchange
        // activations; along dp, buckets of gradients leave during the backward passes.
        const std::optional<double> loss = pipeline.step(mine);
        replicas.sum_gradients();
        if (chosen.sequence_parallel) sum_layernorms(stage, replicas.parts(), rank.group(Axis::tp));
        // The clipped norm covers all stages, slices and shards, each element once.
        update.step();
        replicas.share_parameters();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, replicas.parts(), optimizer);
    if (rank.id == 0 && !lesson.options().output.quiet) print_axis_traffic(rank.plan, chosen);
  });
}
