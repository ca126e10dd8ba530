#include "core/run/lesson.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/16_all_axes/axes_lesson.h"
#include "lessons/16_all_axes/experiment/recorded_routing.h"
#include "lessons/16_all_axes/prediction.h"

using namespace lockstep;

// All techniques on one mesh of dp x pp x cp x tp ranks. tp ranks share every layer, cp ranks every
// sequence, and pp ranks have successive stages. dp and cp ranks together are the replicas of a
// stage: they hold the same parameters, in copies or in shards, and compute different tokens. Only
// the experts are divided among them.
int main(int argc, char** argv) {
  Lesson lesson{all_axes("16 all axes", "4,096 GPUs and this model: which layout?"), argc, argv};
  const AllAxesFlags flags{lesson};
  RecordedRouting routing{lesson, flags, [&] { return lesson.phases(); }};

  const int exit_code = lesson.run([&](Rank& rank) {
    const AllAxes chosen = flags.chosen(lesson.options());
    // Lesson 6 or 7 along tp, lesson 13 along cp, lesson 12 along ep, lesson 2, 3, 4 or 5 along
    // dp x cp, lesson 9 along pp, and lesson 14's recomputation: the plan's builder and lesson 15's
    // step. Along cp, layers exchange keys and values; along ep, tokens travel to their experts.
    MeshTraining training{rank, chosen};
    lesson.load(rank, training.held(), training.adamw());
    SentTo sent;  // in a step

    for (const Phase& phase : lesson.phases()) {
      const Schedule schedule = one_f_one_b(rank.group(Axis::pp).size(), phase.microbatches);
      const Predicted predicted = predict_all_axes(rank, schedule, chosen, routing.log(), &sent);
      PipelineExecutor pipeline = training.pipeline(schedule);
      for (const Batch& mine : lesson.batches(rank, phase, predicted))
        lesson.record_loss(rank, training.step(pipeline, mine));
    }
    lesson.finish(rank, training.parts(), training.adamw());
    routing.report(rank, chosen, sent);
  });
  routing.print_differences();
  return exit_code;
}
