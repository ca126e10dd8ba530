#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "core/run/pipeline_prediction.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"

using namespace lockstep;

// The same pipeline as in lesson 08, but a microbatch is sent back as soon as it has come through.
// The first steps follow GPipe's schedule, all others 1F1B's: the same bubble, less memory.
int main(int argc, char** argv) {
  Lesson lesson{{.name = "09 1F1B",
                 .question = "Does a pipeline have to remember every microbatch of the step?"},
                argc,
                argv};
  const int& compare = lesson.flag("--compare", 2, "first steps that follow GPipe's schedule");

  return lesson.run([&](Rank& rank) {
    const GptConfig& config = lesson.model();
    Gpt stage{config, rank.device, StageLayers::of(config, rank.id, rank.count), lesson.seed()};
    AdamW optimizer{stage.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, stage.parameters(), optimizer);
    // The optimizer's step, and what it needs from other stages (with --tied or --clip; otherwise
    // nothing).
    PipelineUpdate update{
        rank.endpoint, rank.world, linear_placement(rank.count), {&stage}, optimizer};

    for (const Phase& phase : lesson.phases("GPipe", "1F1B", compare)) {
      const auto generate = phase.first_step < compare ? gpipe : one_f_one_b;
      const Schedule schedule = generate(rank.count, phase.microbatches);
      Predicted predicted = predict_pipeline(rank, lesson.options(), schedule);
      predicted.bubble = gpipe_bubble(rank.count, phase.microbatches);  // the same for both
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
