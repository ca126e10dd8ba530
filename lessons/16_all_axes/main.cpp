#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/lesson.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/15_3d/replicas.h"
#include "lessons/16_all_axes/axes_lesson.h"
#include "lessons/16_all_axes/experiment/groups_table.h"
#include "lessons/16_all_axes/prediction.h"

using namespace lockstep;

// All techniques on one mesh of dp x pp x cp x tp ranks. tp ranks share every layer, cp ranks every
// sequence, and pp ranks have successive stages. dp and cp ranks together are the replicas of a
// stage: they hold the same parameters, in copies or in shards, and compute different tokens. Only
// the experts are divided among them.
int main(int argc, char** argv) {
  Lesson lesson{all_axes("16 all axes", "How does one run use all kinds of parallelism?"), argc,
                argv};
  const AllAxesFlags flags{lesson};
  RoutingLog log;
  bool quiet = false;
  lesson.build([&](const Options& options) {
    quiet = options.output.quiet;
    if (options.output.parity)
      log.set_replay(options.run.dp, options.run.microbatches.front(), options.run.cp);
    return builder_of(flags.chosen(options), log);
  });
  lesson.compare([&] {
    log.end_replay();
    return different_choices(log);
  });

  const int exit_code = lesson.run([&](Rank& rank) {
    const Options& options = lesson.options();
    const AllAxes chosen = flags.chosen(options);
    Group& stages = rank.group(Axis::pp);
    const int shards = chosen.shards(rank.place);
    // Lesson 6 or 7 along tp, lesson 13 along cp, lesson 12 along ep, lesson 2, 3, 4 or 5 along
    // dp x cp, lesson 9 along pp, and lesson 14's recomputation.
    Gpt stage{rank.plan, rank.place, rank.device, storage_of(chosen), &rank.groups};
    Replicas replicas{{&stage}, rank.endpoint, rank.groups, rank.plan, rank.place, chosen};
    AdamW& optimizer = replicas.adamw();
    lesson.load(rank, replicas.held(), optimizer);
    PipelineUpdate update{rank.endpoint, stages, rank.plan, {&stage}, optimizer, shards};

    for (const Phase& phase : lesson.phases()) {
      const int m = phase.microbatches;
      const Schedule schedule = one_f_one_b(stages.size(), m);
      const Predicted predicted = predict_all_axes(rank.plan, rank.place, schedule, chosen, log);
      PipelineExecutor pipeline{
          rank.endpoint, stages, schedule, {&stage}, boundary_of(rank.plan, m, chosen)};

      for (const Batch& mine : lesson.batches(rank, phase, predicted)) {
        replicas.zero_gradients();
        // Along tp, layers exchange their terms in every action; along cp, keys and values; along
        // ep, tokens travel to their experts; along pp, stages exchange activations; along dp x cp,
        // buckets of gradients leave during the backward passes.
        const std::optional<double> loss = pipeline.step(mine);
        replicas.sum_gradients();
        if (chosen.sequence_parallel) sum_layernorms(stage, replicas.parts(), rank.group(Axis::tp));
        // The clipped norm covers all stages, slices and shards, each element once.
        update.step();
        replicas.share_parameters();
        lesson.record_loss(rank, loss);
      }
    }
    lesson.finish(rank, replicas.parts(), optimizer);
    if (options.platform.launch == Launch::mpi) collect_routing(rank, log);
    report_groups(lesson, rank, chosen, log);
  });
  if (!quiet) print_flips(log);
  return exit_code;
}
