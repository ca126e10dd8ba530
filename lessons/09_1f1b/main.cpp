#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/09_1f1b/one_f_one_b.h"

using namespace lockstep;

// The same pipeline as in lesson 08, but a microbatch runs backward as soon as it has passed
// through all stages. The first steps follow GPipe's schedule; the others follow 1F1B's, which has
// the same bubble but needs less memory.
int main(int argc, char** argv) {
  Lesson lesson{
      {.name = "09 1F1B",
       .question = "Does a pipeline have to keep the activations of every microbatch of a step?"},
      argc,
      argv};
  const int& compare = lesson.flag("--compare", 2, "first steps that follow GPipe's schedule");

  return lesson.run([&](Rank& rank) {
    Group& ranks = rank.group(Axis::pp);
    Gpt stage{rank.plan, rank.place, rank.device};
    AdamW optimizer{stage.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, stage.parameters(), optimizer);
    // The optimizer step, including communication with other stages (only with --tied or --clip).
    PipelineUpdate update{rank.endpoint, ranks, rank.plan, {&stage}, optimizer};

    for (const Phase& phase : lesson.phases("GPipe", "1F1B", compare)) {
      const auto generate = phase.first_step < compare ? gpipe : one_f_one_b;
      const Schedule schedule = generate(ranks.size(), phase.microbatches);
      const Predicted predicted = predict_gpipe(rank.plan, rank.place, schedule);

      PipelineExecutor pipeline{
          rank.endpoint, ranks, schedule, {&stage}, rank.plan.boundary(phase.microbatches)};
      for (const Batch& batch : lesson.batches(rank, phase, predicted)) {
        stage.zero_gradients();
        const std::optional<BatchLoss> loss = pipeline.step(batch);
        update.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, stage.parameters(), optimizer);
  });
}
