#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/08_gpipe/naive_pipeline.h"
#include "lessons/08_gpipe/prediction.h"

using namespace lockstep;

// The model's layers are spread over p ranks, and the same batch is cut into more and more
// microbatches. At m = 1, one rank works while all others wait; each doubling of m roughly halves
// the idle time.
int main(int argc, char** argv) {
  Lesson lesson{
      {.name = "08 GPipe",
       .question = "How can ranks work at the same time if each holds only some of the layers?",
       .microbatches = {1, 2, 4, 8, 16},
       .sweeps = true},
      argc,
      argv};
  const std::string& executor =
      lesson.flag("--executor", std::string{"scheduled"}, {"scheduled", "naive"},
                  "scheduled: post receives early and do not wait for sends; naive: block on "
                  "every message");

  return lesson.run([&](Rank& rank) {
    Group& ranks = rank.group(Axis::pp);
    Gpt stage{rank.plan, rank.place, rank.device};
    AdamW optimizer{stage.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, stage.parameters(), optimizer);
    // The optimizer step, including communication with other stages (only with --tied or --clip).
    PipelineUpdate update{rank.endpoint, ranks, rank.plan, {&stage}, optimizer};

    for (const Phase& phase : lesson.phases()) {  // m = 1, 2, 4, 8, 16
      const Schedule schedule = gpipe(ranks.size(), phase.microbatches);
      const Predicted predicted = executor == "naive"
                                      ? predict_naive(rank.plan, rank.place, schedule)
                                      : predict_gpipe(rank.plan, rank.place, schedule);

      const Boundary boundary = rank.plan.boundary(phase.microbatches);
      PipelineExecutor pipeline{rank.endpoint, ranks, schedule, {&stage}, boundary};
      NaivePipeline naive{ranks, stage, boundary};
      for (const Batch& batch : lesson.batches(rank, phase, predicted)) {
        stage.zero_gradients();
        const std::optional<BatchLoss> loss =
            executor == "naive" ? naive.step(batch) : pipeline.step(batch);
        update.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, stage.parameters(), optimizer);
  });
}
