#include "core/run/lesson.h"
#include "lessons/12_expert_parallel/experiment/expert_load.h"
#include "lessons/12_expert_parallel/experiment/one_token.h"
#include "lessons/12_expert_parallel/experiment/whole_batch.h"
#include "lessons/12_expert_parallel/expert_lesson.h"
#include "lessons/12_expert_parallel/expert_parallel.h"
#include "lessons/12_expert_parallel/expert_training.h"
#include "lessons/12_expert_parallel/experts_over_tp.h"
#include "lessons/12_expert_parallel/prediction.h"

using namespace lockstep;

// Every rank is a replica with its own share of the batch, except that the ranks of the ep axis
// divide the experts among themselves. The tokens travel to their experts, and back.
int main(int argc, char** argv) {
  Lesson lesson{expert_lesson(), argc, argv};
  const ExpertFlags flags = expert_flags(lesson);
  lesson.hooks.checks.emplace_back(
      [&](const Options& options) { check_expert_lesson(options, flags); });
  RoutingRecord log;
  bool quiet = false;
  const ExpertBuilder builder = [&](const MixtureOfExperts& moe,
                                    RoutingLog& routings) -> std::shared_ptr<const ModelBuilder> {
    if (flags.over == "tp") return std::make_shared<const ExpertsOverTensorParallel>(moe, routings);
    return std::make_shared<const ExpertParallel<>>(moe, routings);
  };
  lesson.hooks.build = [&](const Options& options) {
    quiet = options.output.quiet;
    if (flags.follow >= 0) log.follow(flags.follow);
    if (options.output.parity)
      log.set_replay(options.plan.mesh.size(Axis::dp), options.plan.batch.microbatches,
                     /*context_ranks=*/1, /*whole_batch=*/flags.balance_over == "batch");
    return builder(flags.settings(options), log);
  };
  constexpr std::int64_t bucket = 200'000;
  lesson.hooks.alternatives.push_back(
      {"equally many tokens for every expert", [&](const Options& options) {
         return with_equal_rows(options.plan, flags.settings(options), builder, lesson.phases(),
                                bucket);
       }});
  lesson.hooks.compare = [&] {
    log.end_replay();
    return different_choices(log);
  };
  lesson.hooks.reference = {"one device that takes the whole batch at once",
                            [&](const ReferenceRun& run) -> std::optional<Reference> {
                              if (flags.balance_over != "batch") return {};
                              return train_in_one_microbatch(run);
                            }};
  const int exit_code = lesson.run([&](Rank& rank) {
    const MixtureOfExperts moe = flags.settings(lesson.options());
    ExpertTraining training{rank, moe, bucket};
    const std::vector<Parameter*>& parameters = training.model().parameters();
    lesson.load(rank, parameters, training.adamw());

    std::vector<std::int32_t> last;
    for (const Phase& phase : lesson.phases()) {
      const Predicted predicted =
          predict_expert_parallel(rank, moe, builder, log, phase.microbatches, bucket);
      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        lesson.record_loss(rank, training.step(mine));
        if (flags.follow >= 0) last = last_microbatch(mine);
      }
    }
    lesson.finish(rank, parameters, training.adamw());
    if (lesson.options().platform.launch == Launch::mpi) collect_routing(rank, log);
    if (rank.id != 0) return;
    // By now, every rank has recorded its routings, because the last all-reduce needed its
    // gradients.
    lesson.add_to_report(rank, "experts", load_json(rank.plan, moe, log));
    if (!quiet) print_load(rank.plan, moe, log);
    if (!quiet) print_way(rank.plan, moe, log, last);
  });
  if (!quiet) print_flips(log);
  return exit_code;
}
