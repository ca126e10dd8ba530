#include "core/model/adamw.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/12_expert_parallel/experiment/expert_load.h"
#include "lessons/12_expert_parallel/expert_lesson.h"
#include "lessons/12_expert_parallel/expert_parallel.h"
#include "lessons/12_expert_parallel/experts_over_tp.h"
#include "lessons/12_expert_parallel/prediction.h"

using namespace lockstep;

// Every rank is a replica with its own share of the batch, except that the ranks of the ep axis
// divide the experts among themselves. The tokens travel to their experts, and back.
int main(int argc, char** argv) {
  Lesson lesson{expert_lesson(), argc, argv};
  const ExpertFlags flags = expert_flags(lesson);
  lesson.check([&](const Options& options) { check_expert_lesson(options, flags); });
  RoutingLog log;
  bool quiet = false;
  lesson.build([&](const Options& options) -> std::shared_ptr<const ModelBuilder> {
    quiet = options.output.quiet;
    if (options.output.parity) log.set_replay(options.run.dp, options.run.microbatches.front());
    const MixtureOfExperts moe = flags.settings(options);
    if (flags.over == "tp") return std::make_shared<const ExpertsOverTensorParallel>(moe, log);
    return std::make_shared<const ExpertParallel<>>(moe, log);
  });
  lesson.compare([&] {
    log.end_replay();
    return different_choices(log);
  });
  constexpr std::int64_t bucket = 200'000;

  const int exit_code = lesson.run([&](Rank& rank) {
    Gpt model{rank.plan, rank.place, rank.device, Storage::own, &rank.groups};
    AdamW optimizer{model.parameters(), rank.device, lesson.optimizer()};
    lesson.load(rank, model.parameters(), optimizer);

    Group same_experts{rank.endpoint, rank.plan.mesh.replicas_of_experts(rank.id), "same experts",
                       rank.transport->open_channels(Group::channels_taken)};
    DataParallel dense{model, units_with(model.stored_units(), false), rank.group(Axis::dp),
                       bucket};
    DataParallel experts{model, units_with(model.stored_units(), true), same_experts, bucket};
    dense.set(GradientSync::bucket);
    experts.set(GradientSync::bucket);

    const MixtureOfExperts moe = flags.settings(lesson.options());
    for (const Phase& phase : lesson.phases()) {
      const Predicted predicted = predict_expert_parallel(rank.plan, rank.place, moe, log, bucket);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        model.zero_gradients();
        const double loss = accumulate_gradients(model, mine);
        dense.sum_gradients();
        experts.sum_gradients();
        optimizer.step();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, model.parameters(), optimizer);
    if (lesson.options().platform.launch == Launch::mpi) collect_routing(rank, log);
    if (rank.id != 0) return;
    // Every rank has recorded its routings: the last all-reduce needed its gradients.
    lesson.add_to_report(rank, "experts", load_json(rank.plan, moe, log));
    if (!quiet) print_load(rank.plan, moe, log);
  });
  if (!quiet) print_flips(log);
  return exit_code;
}
