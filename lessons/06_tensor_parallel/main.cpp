#include "core/model/adamw.h"
#include "core/run/lesson.h"
#include "lessons/06_tensor_parallel/experiment/slices_grid.h"
#include "lessons/06_tensor_parallel/prediction.h"
#include "lessons/06_tensor_parallel/tensor_lesson.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"

using namespace lockstep;

// Every rank reads the whole batch, and holds 1/t of each matrix. The ranks compute every layer
// together, with four all-reduces per layer and microbatch.
int main(int argc, char** argv) {
  Lesson lesson{tensor_lesson("06 tensor parallel", "How can several ranks compute one layer?"),
                argc, argv};
  lesson.hooks.build = [](const Options&) { return std::make_shared<const TensorParallel>(); };

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::own, &rank.groups};
    AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, model.parameters(), optimizer);

    for (const Phase& phase : lesson.phases()) {
      const Predicted predicted = predict_tensor_parallel(rank.plan, rank.place);
      for (const Batch& batch : lesson.batches(rank, phase, predicted)) {
        model.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, batch);
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, model.parameters(), optimizer);
    if (rank.id == 0 && !lesson.options().output.quiet) print_slices(rank.plan);
  });
}
