#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/05_zero_3/prediction.h"
#include "lessons/05_zero_3/zero_3.h"

using namespace lockstep;

// Like ZeRO-2, but each rank also keeps only its own 1/N of the parameters. In FSDP's terms, the
// ranks unshard a layer (all-gather its parameters) before its forward and again before its
// backward, and reshard it (free them) afterwards. With a prefetch of K, the parameters of the next
// K layers are in flight while a layer computes.
int main(int argc, char** argv) {
  Lesson lesson{replica_lesson("05 ZeRO-3", "How can a model be trained that no rank could hold?"),
                argc, argv};
  const int& bucket = bucket_flag(lesson, default_bucket, "parameters");
  const std::vector<int>& prefetch = lesson.flag(
      "--prefetch", std::vector{0, 1}, "how many layers ahead are gathered: each value in turn");

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::none};
    Zero3 zero{model, rank.group(Axis::dp), bucket, lesson.optimizer(), lesson.seed()};
    lesson.load(rank, zero.parts(), zero.adamw());

    const auto name = [](int uses) { return fmt::format("prefetch {}", uses); };
    for (const auto& [uses, phase] : lesson.phases_for(prefetch, name)) {
      zero.set_prefetch(uses);
      const Predicted predicted = predict_zero_3(rank.plan, rank.place, bucket, uses);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        zero.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, mine);
        zero.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, zero.parts(), zero.adamw());
  });
}
