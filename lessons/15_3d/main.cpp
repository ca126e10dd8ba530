#include "core/run/lesson.h"
#include "lessons/15_3d/experiment/axis_traffic.h"
#include "lessons/15_3d/experiment/schedule_table.h"
#include "lessons/15_3d/flags_3d.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/15_3d/prediction.h"

using namespace lockstep;

// Three techniques on one mesh of dp x pp x tp ranks. Each works within its own axis and does not
// know of the others: tp ranks share every layer, pp ranks have successive stages, one or several
// each, and dp ranks have the same stages, in copies or in shards, and different samples.
int main(int argc, char** argv) {
  Lesson lesson{three_axes("15 3D", "How do data, pipeline and tensor parallelism work together?"),
                argc, argv};
  const Flags3D flags{lesson};
  lesson.hooks.build = [&](const Options&) { return builder_of(flags.chosen()); };

  return lesson.run([&](Rank& rank) {
    const Composition chosen = flags.chosen();
    MeshTraining training{rank, chosen};
    lesson.load(rank, training.held(), training.adamw());
    ScheduleTable table{rank};
    SentTo sent;  // in a step

    for (const auto& [schedule, phase] : flags.phases()) {
      const Predicted predicted = predict_3d(rank.plan, rank.place, schedule, chosen, &sent);
      PipelineExecutor pipeline = training.pipeline(schedule);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        table.begin_step(schedule);
        const std::optional<BatchLoss> loss = training.step(pipeline, mine);
        table.end_step(pipeline.ran());
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, training.parts(), training.adamw());
    const std::string traffic = axis_traffic(rank, sent);
    const std::string schedules = table.text();
    if (rank.id == 0 && !lesson.options().output.quiet) fmt::print("{}{}", traffic, schedules);
  });
}
