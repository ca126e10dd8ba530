#include "core/model/adamw.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/13_ring_attention/context_lesson.h"
#include "lessons/13_ring_attention/context_parallel.h"
#include "lessons/13_ring_attention/experiment/attention_alone.h"
#include "lessons/13_ring_attention/experiment/document_balance.h"
#include "lessons/13_ring_attention/prediction.h"

using namespace lockstep;

// Every rank holds the whole model and 1/N of the tokens of every sequence. In each layer, the keys
// and values of all tokens reach all ranks; everything else is computed where the tokens are.
int main(int argc, char** argv) {
  Lesson lesson{
      context_lesson("13 ring attention", "How can several ranks share one long sequence?"), argc,
      argv};
  const std::string& name = context_method_flag(lesson);
  lesson.hooks.checks.emplace_back(
      [&](const Options& options) { check_context_method(options.plan, context_method(name)); });
  lesson.hooks.build = [&](const Options&) {
    return std::make_shared<const ContextParallel<>>(context_method(name));
  };

  return lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::own, &rank.groups};
    AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, model.parameters(), optimizer);
    // Each rank has computed the gradients of its own tokens' losses, as a replica does.
    DataParallel replicas{model, rank.group(Axis::cp), one_bucket};
    replicas.set(GradientSync::bucket);

    for (const Phase& phase : lesson.phases()) {
      const Predicted predicted = predict_context_parallel(rank.plan, rank.place);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        model.zero_gradients();
        const BatchLoss loss = accumulate_gradients(model, mine);
        replicas.sum_gradients();
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, model.parameters(), optimizer);
    show_attention(lesson, rank);
    show_balance(lesson, rank);
  });
}
