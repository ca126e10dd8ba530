#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "core/run/pipeline_prediction.h"
#include "lessons/08_gpipe/gpipe.h"

using namespace lockstep;

// The model's layers are spread over p ranks, and the same batch is cut into more and more
// microbatches. At m = 1 one rank works while all others wait; each doubling of m halves what is
// lost.
int main(int argc, char** argv) {
  Lesson lesson{
      {.name = "08 GPipe",
       .question = "How can ranks that each hold a part of the layers work at the same time?",
       .microbatches = {1, 2, 4, 8, 16},
       .sweeps = true},
      argc,
      argv};

  return lesson.run([&](Rank& rank) {
    const GptConfig& config = lesson.model();
    Gpt stage{config, rank.device, StageLayers::of(config, rank.id, rank.count), lesson.seed()};
    AdamW optimizer{stage.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, stage.parameters(), optimizer);
    // The optimizer's step, and what it needs from other stages (with --tied or --clip; otherwise
    // nothing).
    PipelineUpdate update{
        rank.endpoint, rank.world, linear_placement(rank.count), {&stage}, optimizer};

    for (const Phase& phase : lesson.phases()) {  // m = 1, 2, 4, 8, 16
      const Schedule schedule = gpipe(rank.count, phase.microbatches);
      Predicted predicted = predict_pipeline(rank, lesson.options(), schedule);
      predicted.bubble = gpipe_bubble(rank.count, phase.microbatches);
      predicted.formula = "(p-1)/(m+p-1)";

      const int sequences = lesson.options().batch / phase.microbatches;  // of a microbatch
      PipelineExecutor pipeline{
          rank.endpoint, rank.world, schedule, {&stage}, stage_boundary(config, sequences)};
      for (const Batch& batch : lesson.batches(rank, phase, predicted)) {
        stage.zero_gradients();
        const std::optional<double> loss = pipeline.step(batch);
        update.step();
        lesson.record(rank, loss);
      }
    }
    lesson.finish(rank, stage.parameters(), optimizer);
  });
}
