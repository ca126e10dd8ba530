#include "core/pipeline/executor.h"
#include "core/pipeline/rank_stages.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/15_3d/experiment/axis_traffic.h"
#include "lessons/15_3d/experiment/schedule_table.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/15_3d/replicas.h"
#include "lessons/15_3d/three_axes.h"

using namespace lockstep;

// Three techniques on one mesh of dp x pp x tp ranks. Each works within its own axis and does not
// know of the others: tp ranks share every layer, pp ranks have successive stages, one or several
// each, and dp ranks have the same stages, in copies or in shards, and different samples.
int main(int argc, char** argv) {
  Lesson lesson{three_axes("15 3D", "How do data, pipeline and tensor parallelism work together?"),
                argc, argv};
  const Flags3D flags{lesson};
  lesson.build([&](const Options&) { return builder_of(flags.chosen()); });

  return lesson.run([&](Rank& rank) {
    const Composition chosen = flags.chosen();
    Group& pipeline_ranks = rank.group(Axis::pp);
    const int shards = chosen.shards(rank.place);
    // Lesson 6 or 7 along tp, lesson 2, 3, 4 or 5 along dp, and lesson 9, 10 or 11 along pp.
    RankStages stages{rank.plan, rank.place, rank.device, storage_of(chosen), &rank.groups};
    const std::vector<Gpt*> models = stages.models();
    Replicas replicas{models, rank.endpoint, rank.groups, rank.plan, rank.place, chosen};
    AdamW& optimizer = replicas.adamw();
    lesson.load(rank, replicas.held(), optimizer);
    PipelineUpdate update{rank.endpoint, pipeline_ranks, rank.plan, models, optimizer, shards};
    ScheduleTable table{rank};

    for (const auto& [schedule, phase] : flags.phases()) {
      const Predicted predicted = predict_3d(rank.plan, rank.place, schedule, chosen);
      PipelineExecutor pipeline{rank.endpoint, pipeline_ranks, schedule, models,
                                boundary_of(rank.plan, phase.microbatches, chosen)};

      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        table.begin_step(schedule);
        replicas.zero_gradients();
        // Along tp, layers exchange their terms in every action; along pp, stages exchange
        // activations; along dp, a stage's buckets of gradients leave while its last microbatch
        // completes them.
        const std::optional<double> loss = pipeline.step(mine);
        replicas.sum_gradients();
        if (chosen.sequence_parallel)
          sum_layernorms(*models.front(), replicas.parts(), rank.group(Axis::tp));
        // The clipped norm covers all stages, slices and shards, each element once.
        update.step();
        replicas.share_parameters();
        table.end_step(pipeline.ran());
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, replicas.parts(), optimizer);
    const std::string schedules = table.text();
    if (rank.id > 0 || lesson.options().output.quiet) return;
    print_axis_traffic(rank.plan, chosen);
    fmt::print("{}", schedules);
  });
}
