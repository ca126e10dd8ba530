#include "core/model/adamw.h"
#include "core/run/lesson.h"
#include "lessons/07_sequence_parallel/experiment/paper_activations.h"
#include "lessons/07_sequence_parallel/prediction.h"
#include "lessons/07_sequence_parallel/sequence_lesson.h"
#include "lessons/07_sequence_parallel/sequence_parallel.h"

using namespace lockstep;

// Like tensor parallelism, but between the products each rank holds only 1/t of the tokens. Every
// all-reduce becomes a reduce-scatter and an all-gather, and the ranks no longer keep the same
// activations t times.
int main(int argc, char** argv) {
  Lesson lesson{
      tensor_lesson("07 sequence parallel",
                    "Which activations does every tensor-parallel rank still keep in full?"),
      argc, argv};
  const bool& regather = lesson.flag(
      "--regather", false,
      "keep only a shard of each column-parallel layer's input, and gather it again in backward");
  lesson.hooks.checks.emplace_back(
      [](const Options& options) { check_sequence_shards(options.plan); });
  lesson.hooks.build = [&](const Options&) {
    return std::make_shared<const SequenceParallel>(regather);
  };

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::own, &rank.groups};
    AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, model.parameters(), optimizer);
    const NormSums sums{model, rank.group(Axis::tp)};

    for (const Phase& phase : lesson.phases()) {
      const Predicted predicted = predict_sequence_parallel(rank.plan, rank.place, regather);
      for (const Batch& batch : lesson.batches(rank, phase, predicted)) {
        model.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, batch);
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, model.parameters(), optimizer);
    if (rank.id == 0 && !lesson.options().output.quiet) print_activations(rank.plan);
  });
}
