#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/rank_stages.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/schedules/prediction.h"
#include "lessons/schedules/schedule_flags.h"

using namespace lockstep;

// The same ranks and layers as in lesson 09, but each rank holds several smaller stages, so that
// the pipeline fills in smaller steps. The first half of the run follows the looped breadth-first
// schedule (breadth_first.h), the second half interleaved 1F1B (interleaved.h): both have the same
// bubble, but interleaved 1F1B needs less memory.
int main(int argc, char** argv) {
  Lesson lesson{{.name = "10 interleaved 1F1B",
                 .question = "Can a pipeline have a smaller bubble without more microbatches?"},
                argc,
                argv};
  const ScheduleFlags flags{lesson, "breadth-first,interleaved"};

  return lesson.run([&](Rank& rank) {
    Group& ranks = rank.group(Axis::pp);
    RankStages stages{rank.plan, rank.place, rank.device};  // v chunks of the model
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
  });
}
