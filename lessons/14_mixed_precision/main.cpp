#include "core/run/lesson.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/14_mixed_precision/experiment/lost_gradients.h"
#include "lessons/14_mixed_precision/experiment/model_states.h"
#include "lessons/14_mixed_precision/experiment/recompute_table.h"
#include "lessons/14_mixed_precision/mixed_precision.h"
#include "lessons/14_mixed_precision/prediction.h"
#include "lessons/14_mixed_precision/recompute_flag.h"
#include "lessons/14_mixed_precision/scaling_flags.h"

using namespace lockstep;

// Weights, gradients and activations are stored in 16 bits; the optimizer keeps an f32 master copy
// of each weight. In f16 the loss is scaled to keep small gradients from underflowing. For
// comparison, one device trains on the same batches entirely in f32.
int main(int argc, char** argv) {
  Lesson lesson{{.name = "14 mixed precision",
                 .question = "Which numbers may be stored in 16 bits, and what does that save?",
                 .ranks = 1,
                 .steps = 200,
                 .microbatches = {1},
                 .narrow = true,
                 .precision = DType::bf16,
                 .clips = false,
                 .why_no_time = no_time_of_layers,
                 .f32_reference = true,
                 .axes = {Axis::dp},
                 .tolerance = {.loss = 1e-6, .parameter = 1e-5},
                 .narrow_tolerance = {.final_loss = 0.01}},
                argc,
                argv};
  const ScalingFlags scaling = scaling_flags(lesson);
  const std::string& masters =
      lesson.flag("--masters", std::string{"on"}, {"on", "off"},
                  "f32 master copies of 16-bit weights, which the optimizer updates");
  const std::string& recompute = recompute_flag(lesson, Recompute::selective);
  const int& bucket = bucket_flag(lesson, 200'000);
  lesson.hooks.build = [&](const Options&) {
    return std::make_shared<const Recomputing<>>(recompute_of(recompute));
  };

  return lesson.run([&](Rank& rank) {
    const Options& options = lesson.options();
    const DType dtype = lesson.model().dtype;
    Gpt model{rank.plan, rank.place, rank.device};
    AdamWOptions adamw = lesson.optimizer();
    adamw.masters = masters == "on";
    AdamW optimizer{model.parameters(), rank.device, adamw};
    lesson.load(rank, model.parameters(), optimizer);
    DataParallel replicas{model, rank.group(Axis::dp), bucket};
    LossScaler scaler{first_scale(scaling.scale, dtype), scaling.growth_interval};

    Phase phase = lesson.phases().front();
    phase.name = name_of(dtype);
    const Predicted predicted = predict_mixed_precision(rank.plan, rank.place, bucket,
                                                        recompute_of(recompute), adamw.masters);
    Batches batches = lesson.batches(rank, phase, predicted);
    const Batch* last = nullptr;
    for (const Batch& mine : batches) {
      const int step = rank.trace.step();
      const float larger = scaler.scale() * (step == scaling.overflow_at ? outlier : 1);
      model.zero_gradients();
      const BatchLoss loss = accumulate_gradients(model, scaled(mine, larger));
      replicas.sum_gradients();

      // Only f16 can overflow in cases in which f32 would not.
      const float unscale = scaler.unscale();
      const bool good = dtype != DType::f16 || optimizer.finite();
      if (scaler.take(step, good))
        optimizer.step(unscale);
      else
        rank.compute.range({.name = "skipped", .category = Category::optimizer}, [] {});
      if (scaler.scale() * unscale != 1) rank.trace.metadata("loss_scale", scaler.json());
      lesson.record_loss(rank, loss / larger);
      last = &mine;
    }
    lesson.finish(rank, model.parameters(), optimizer);
    if (rank.id != 0 || options.output.quiet || last == nullptr) return;
    const int sequences = rank.plan.microbatch_size(phase.microbatches);
    print_states(lesson.model(), is_narrow(dtype) ? dtype : DType::bf16, sequences);
    if (!options.platform.on_meta()) {  // the meta device computes no gradients
      print_lost_gradients(lesson.model(), rank.device, model.parameters(), *last);
      if (dtype == DType::f16) print_scaling(scaler);
    }
    print_recompute_tables(
        lesson.model(), sequences,
        rank.clock.is_modelled() ? rank.clock.cluster() : Cluster::load(options.platform.cluster));
  });
}
