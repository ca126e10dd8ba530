#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/03_zero_1/prediction.h"
#include "lessons/03_zero_1/zero_1.h"

using namespace lockstep;

// Data parallelism keeps N copies of everything. Here each rank keeps the optimizer's momentum and
// variance for 1/N of the parameters, updates that part, and receives the other parts from the
// ranks that updated them.
int main(int argc, char** argv) {
  Lesson lesson{
      replica_lesson("03 ZeRO-1", "Why should every rank keep all of the optimizer's states?"),
      argc, argv};
  const int& bucket = bucket_flag(lesson);

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::none};
    Zero1 zero{model, rank.group(Axis::dp), bucket, lesson.optimizer(), lesson.seed()};
    lesson.load(rank, model.parameters(), zero.adamw());

    const Predicted predicted = predict_zero_1(rank.plan, rank.place, bucket);
    for (const Phase& phase : lesson.phases())
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        model.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, mine);
        zero.step();
        lesson.record_loss(rank, loss);
      }
    lesson.finish(rank, zero.parts(), zero.adamw());
  });
}
