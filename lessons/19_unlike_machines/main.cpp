#include "core/run/lesson.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/19_unlike_machines/experiment/kinds_alone.h"
#include "lessons/19_unlike_machines/experiment/pace_table.h"
#include "lessons/19_unlike_machines/flags.h"
#include "lessons/19_unlike_machines/prediction.h"

using namespace lockstep;

// Replicas of a pipeline, as in lesson 15, on ranks that differ in speed and memory. The even
// division makes fast ranks wait for slow ones. With --search, stages have unequal numbers of
// blocks, replicas unequal numbers of microbatches, and the slow ranks hold the stages that suit
// them.
int main(int argc, char** argv) {
  Lesson lesson{unlike_machines(), argc, argv};
  const DivisionFlags flags{lesson};

  return lesson.run([&](Rank& rank) {
    const Composition chosen = flags.chosen();
    MeshTraining training{rank, chosen};
    lesson.load(rank, training.held(), training.adamw());
    // Replicas with different shares follow schedules of different lengths.
    const Schedule schedule = schedule_of(rank.plan, rank.place.coordinate(Axis::dp));
    PaceTable pace{rank, chosen};

    for (const Phase& phase : lesson.phases()) {
      const Predicted predicted = predict_division(rank.plan, rank.place, chosen);
      PipelineExecutor pipeline = training.pipeline(schedule);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        pace.begin_step();
        const std::optional<BatchLoss> loss = training.step(pipeline, mine);
        pace.end_step(pipeline.ran());
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, training.parts(), training.adamw());
    pace.report(lesson, flags.even());
    if (flags.alone()) report_kinds_alone(lesson, rank, chosen);
  });
}
