#include "core/model/adamw.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/02_data_parallel/overlap_flag.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/02_data_parallel/replica_lesson.h"

using namespace lockstep;

// Every rank holds the whole model and a share of the batch. Before the optimizer updates any
// parameter, the ranks must sum their gradients. The lesson runs three ways of doing so: tensor by
// tensor after the backward pass, bucket by bucket after it, and bucket by bucket during it.
int main(int argc, char** argv) {
  Lesson lesson{
      replica_lesson("02 data parallel", "When are gradients averaged, and what does that cost?"),
      argc, argv};
  const std::string& overlap = overlap_flag(lesson);
  const int& bucket = bucket_flag(lesson);

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device};
    AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, model.parameters(), optimizer);
    DataParallel replicas{model, rank.group(Axis::dp), bucket};

    for (const auto& [sync, phase] : lesson.phases_for(
             gradient_syncs(overlap), [](GradientSync each) { return name_of(each); })) {
      replicas.set(sync);
      const Predicted predicted = predict_data_parallel(rank.plan, rank.place, sync, bucket);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        model.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, mine);
        replicas.sum_gradients();
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, model.parameters(), optimizer);
  });
}
