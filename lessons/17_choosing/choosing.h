#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "lessons/15_3d/experiment/schedule_table.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/17_choosing/configuration_flags.h"
#include "lessons/17_choosing/prediction.h"

namespace lockstep {

// Each technique works within its axis. They meet in three places: the plan's builder chooses the
// layers (lesson 16), MeshTraining runs a step of this rank's stages, one or several (lesson 15),
// and the schedule decides when each stage runs (lessons 8 to 11). Every combination therefore runs
// the same loop, so a configuration can be chosen by its predicted time and memory alone.

/// Trains this rank's part of a model under any configuration: the techniques `chosen` along the
/// mesh's axes, and the schedules of `phases` along pp. Each phase's step is predicted first.
/// `sent` receives the bytes of a step, and `table` the times of each schedule.
inline void train_configuration(Lesson& lesson, Rank& rank, const AllAxes& chosen,
                                const std::vector<std::pair<Schedule, Phase>>& phases,
                                RoutingLog& log, SentTo& sent, ScheduleTable& table) {
  MeshTraining training{rank, chosen};
  lesson.load(rank, training.held(), training.adamw());

  for (const auto& [schedule, phase] : phases) {
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
}

}  // namespace lockstep
