#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/04_zero_2/prediction.h"
#include "lessons/04_zero_2/zero_2.h"

using namespace lockstep;

// Like ZeRO-1, but each rank also keeps only its own 1/N of the summed gradients: a bucket of
// gradients is reduced as soon as the backward pass has left the bucket, and then its memory is
// freed.
int main(int argc, char** argv) {
  Lesson lesson{replica_lesson("04 ZeRO-2",
                               "How long must a rank keep a gradient that another rank will use?"),
                argc, argv};
  const int& bucket = bucket_flag(lesson);

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::none};
    Zero2 zero{model, rank.group(Axis::dp), bucket, lesson.optimizer(), lesson.seed()};
    lesson.load(rank, model.parameters(), zero.adamw());

    const Predicted predicted = predict_zero_2(rank.plan, rank.place, bucket);
    for (const Phase& phase : lesson.phases())
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        zero.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, mine);
        zero.step();
        lesson.record_loss(rank, loss);
      }
    lesson.finish(rank, zero.parts(), zero.adamw());
  });
}
