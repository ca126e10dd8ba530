#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/rank_stages.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/11_zero_bubble/experiment/side_by_side.h"
#include "lessons/schedules/prediction.h"
#include "lessons/schedules/schedule_flags.h"

using namespace lockstep;

// The same pipeline as in lesson 09, but most backward passes are split into the gradient of the
// input, which the previous stage is waiting for, and the gradients of the weights, which no rank
// is waiting for. The first third of the run follows 1F1B, the others ZB-H1 and ZB-H2.
int main(int argc, char** argv) {
  Lesson lesson{
      {.name = "11 zero bubble",
       .question = "Which part of a backward pass can wait, and what fills the bubble?",
       // A schedule loaded from a file may sum gradients in a different order than one device does.
       .tolerance = {.loss = 1e-5, .parameter = 1e-4}},
      argc,
      argv};
  const ScheduleFlags flags{lesson, "1f1b,zb-h1,zb-h2"};

  return lesson.run([&](Rank& rank) {
    Group& ranks = rank.group(Axis::pp);
    RankStages stages{rank.plan, rank.place, rank.device};
    AdamW optimizer{stages.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, stages.parameters(), optimizer);
    // The optimizer step, including communication with other ranks (only with --tied or --clip).
    PipelineUpdate update{rank.endpoint, ranks, rank.plan, stages.models(), optimizer};

    for (const auto& [schedule, phase] : flags.phases()) {
      const Predicted predicted = predict_schedule(rank.plan, rank.place, schedule);
      PipelineExecutor pipeline{rank.endpoint, ranks, schedule, stages.models(),
                                rank.plan.boundary(phase.microbatches)};
      for (const Batch& batch : lesson.batches(rank, phase, predicted)) {
        stages.zero_gradients();
        const std::optional<BatchLoss> loss = pipeline.step(batch);
        update.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, stages.parameters(), optimizer);
    if (rank.id == 0 && !lesson.options().output.quiet) print_side_by_side(rank.plan, flags);
  });
}
