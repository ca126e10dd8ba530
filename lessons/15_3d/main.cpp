#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/15_3d/experiment/axis_traffic.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/15_3d/three_axes.h"

using namespace lockstep;

// Three techniques on one mesh of dp x pp x tp ranks. Each works within its own axis and does not
// know of the others: tp ranks share every layer, pp ranks have successive stages, and dp ranks
// have copies of the same stage and different samples.
int main(int argc, char** argv) {
  Lesson lesson{three_axes("15 3D", "How do data, pipeline and tensor parallelism work together?"),
                argc, argv};
  const int& bucket = lesson.flag("--bucket", 50'000, "minimum bytes of gradients in a bucket");
  lesson.check([&](const Options& options) { check_three_axes(options, bucket); });
  lesson.build([](const Options&) { return std::make_shared<const TensorParallel>(); });

  return lesson.run([&](Rank& rank) {
    Group& stages = rank.group(Axis::pp);
    Gpt stage{rank.plan, rank.place, rank.device, Storage::own, &rank.groups};  // lesson 6
    AdamW optimizer{stage.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, stage.parameters(), optimizer);
    DataParallel replicas{stage, rank.group(Axis::dp), bucket};                    // lesson 2
    PipelineUpdate update{rank.endpoint, stages, rank.plan, {&stage}, optimizer};  // lesson 9
    rank.trace.metadata("plan", rank.plan.json(rank.place));

    for (const Phase& phase : lesson.phases()) {
      const Schedule schedule = one_f_one_b(stages.size(), phase.microbatches);
      const Predicted predicted = predict_3d(rank.plan, rank.place, schedule, bucket);
      PipelineExecutor pipeline{
          rank.endpoint, stages, schedule, {&stage}, rank.plan.boundary(phase.microbatches)};

      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        stage.zero_gradients();
        // Along tp, layers exchange their terms in every action; along pp, stages exchange
        // activations; along dp, buckets of gradients leave during the last backward pass.
        const std::optional<double> loss = pipeline.step(mine);
        replicas.sum_gradients();
        // The clipped norm covers all stages and all slices of layers, each element once.
        update.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, stage.parameters(), optimizer);
    if (rank.id == 0 && !lesson.options().output.quiet) print_axis_traffic(rank.plan, bucket);
  });
}
