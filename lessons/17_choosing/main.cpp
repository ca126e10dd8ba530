#include "core/run/lesson.h"
#include "lessons/15_3d/experiment/schedule_table.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/16_all_axes/experiment/groups_table.h"
#include "lessons/17_choosing/choosing.h"
#include "lessons/17_choosing/prediction.h"

using namespace lockstep;

// A configuration says which axes the ranks form, and what each axis does: dp x pp x cp x tp ranks,
// ZeRO's stage, what backward recomputes, the schedule along pp, the microbatches and the experts.
// This program runs any of them, with the step of lesson 15 and the layers of lesson 16.
int main(int argc, char** argv) {
  Lesson lesson{choosing_lesson(), argc, argv};
  const ConfigurationFlags flags{lesson};
  RoutingRecord log;
  bool quiet = false;
  lesson.build([&](const Options& options) {
    quiet = options.output.quiet;
    if (options.output.parity)
      log.set_replay(options.plan.mesh.size(Axis::dp), options.plan.batch.microbatches,
                     options.plan.mesh.size(Axis::cp));
    return builder_of(flags.chosen(options), log);
  });
  lesson.alternative("equally many tokens for every expert", [&](const Options& options) {
    return with_equal_rows(options.plan, flags.chosen(options), flags.phases());
  });
  lesson.compare([&] {
    log.end_replay();
    return different_choices(log);
  });

  const int exit_code = lesson.run([&](Rank& rank) {
    const AllAxes chosen = flags.chosen(lesson.options());
    // Each technique works within its axis. They meet in three places: the plan's builder chooses
    // the layers, MeshTraining runs a step of this rank's stages, one or several, and the schedule
    // decides when each stage runs. Every combination therefore runs the same loop.
    MeshTraining training{rank, chosen};
    lesson.load(rank, training.held(), training.adamw());
    ScheduleTable table{rank};
    SentTo sent;  // in a step

    for (const auto& [schedule, phase] : flags.phases()) {
      const Predicted predicted = predict_configuration(rank, schedule, chosen, log, &sent);
      PipelineExecutor pipeline = training.pipeline(schedule);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        table.begin_step(schedule);
        const std::optional<BatchLoss> loss = training.step(pipeline, mine);
        table.end_step(pipeline.ran());
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, training.parts(), training.adamw());
    if (lesson.options().platform.launch == Launch::mpi) collect_routing(rank, log);
    report_groups(lesson, rank, chosen, log, sent);
    const std::string schedules = table.text();
    if (rank.id == 0 && !quiet) fmt::print("{}", schedules);
  });
  if (!quiet) print_flips(log);
  return exit_code;
}
