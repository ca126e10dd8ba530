#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "core/run/reference/parity.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "tests/support/copies_checks.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/ranks.h"

// Combines data parallelism and pipelines on one mesh, including several stages per rank. (Lesson
// 15 supports one stage per rank.)
using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A looped breadth-first schedule with two stages per rank: each rank runs its first stage for all
/// microbatches, then its second.
Schedule looped(int ranks, int microbatches) {
  Schedule schedule = empty_schedule("looped", loop_placement(ranks, 2 * ranks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    for (const int stage : {rank, rank + ranks})
      for (int i = 0; i < microbatches; ++i) actions.push_back({Op::forward, stage, i});
    for (const int stage : {rank + ranks, rank})
      for (int i = 0; i < microbatches; ++i) actions.push_back({Op::backward, stage, i});
  }
  return schedule;
}

/// One rank of a replicated pipeline: a model for each of the rank's stages, and data parallelism
/// on each model.
struct Replicated {
  Replicated(Rank& rank, const Plan& plan, GradientSync sync, std::int64_t bucket_bytes) {
    const Place place = plan.place(rank.id);
    for (const int stage : place.stages)
      stages.push_back(std::make_unique<Gpt>(plan, place, stage, rank.device));
    for (const auto& stage : stages) {
      copies.push_back(std::make_unique<DataParallel>(*stage, rank.group(Axis::dp), bucket_bytes));
      copies.back()->set(sync);
      pointers.push_back(stage.get());
      parameters.insert(parameters.end(), stage->parameters().begin(), stage->parameters().end());
    }
  }

  std::vector<std::unique_ptr<Gpt>> stages;
  std::vector<std::unique_ptr<DataParallel>> copies;
  std::vector<Gpt*> pointers;
  std::vector<Parameter*> parameters;
};

/// Trains dp replicas of a pipeline and, on rank 0, a single-device reference that adds gradients
/// in the order of the replicas' rings. Returns a description of any difference.
std::string check_replicated(Rank& rank, const Options& options, const Schedule& schedule,
                             GradientSync sync) {
  Plan plan = rank.plan;
  plan.rank_of_stage = schedule.rank_of_stage;
  const Corpus corpus = small_corpus(options.plan.model());
  Replicated replica{rank, plan, sync, 5'000};
  AdamW optimizer{replica.parameters, rank.device, options.plan.optimizer};
  Group& pipeline_ranks = rank.group(Axis::pp);
  PipelineUpdate update{rank.endpoint, pipeline_ranks, plan, replica.pointers, optimizer};
  PipelineExecutor pipeline{rank.endpoint, pipeline_ranks, schedule, replica.pointers,
                            plan.boundary(schedule.microbatches)};
  RankResults record{.rank = rank.id};
  for (int step = 0; step < options.run.steps; ++step) {
    for (Gpt* stage : replica.pointers) stage->zero_gradients();
    const auto loss =
        pipeline.step(corpus.batch(options.plan.seed, step, plan.samples(rank.place)));
    for (const auto& copies : replica.copies) copies->sum_gradients();
    update.step();
    if (loss) record.losses.emplace_back(step, *loss);
  }
  for (const Parameter* each : replica.parameters)
    record.parameters.push_back(named(rank.device, *each, each->value));

  std::vector<RankResults> records;
  for (const std::string& bytes : gather_to_root(*rank.transport, record.to_bytes()))
    records.push_back(RankResults::from_bytes(bytes));
  if (rank.id != 0) return "";
  SumOrder order;  // for all stages
  for (int stage = 0; stage < plan.stages(); ++stage) {
    const Place place = plan.place(plan.rank_holding(stage));
    const FlatLayout layout{plan.units(place, stage), place.size(Axis::dp), 5'000};
    const SumOrder mine = ring_order(layout, sync);
    order.segments.insert(order.segments.end(), mine.segments.begin(), mine.segments.end());
  }
  const std::vector<Phase> phases{{"", 0, options.run.steps, schedule.microbatches}};
  const Reference reference = train_on_one_device(options, corpus, phases, {}, {order});
  const auto losses = collect_losses(records, options.run.steps);
  const Parity parity = compare(losses, collect_parameters(records), reference);
  if (!parity.bitwise)
    return fmt::format("{} x {}: not the same bits: losses {:.1e}, parameters {:.1e} ({})\n",
                       schedule.name, plan.mesh.json(), parity.max_relative_loss,
                       parity.max_relative_parameter, parity.worst_parameter);
  if (!(losses.back() < 0.95 * losses.front()))
    return fmt::format("the loss fell only from {} to {}\n", losses.front(), losses.back());
  return "";
}

Options replicated(int pp, int dp, const char* order) {
  Options options = small_training(pp, 4);
  options.plan.set_mesh(Mesh{pp * dp, {1, 1, dp, pp}, order});
  options.plan.batch.sequences = 4 * dp;
  options.run.steps = 6;
  return options;
}

}  // namespace

TEST_CASE(
    "data parallelism over replicas of a pipeline has the bits of one device adding in order") {
  for (const int dp : {2, 3})
    for (const int pp : {2, 4})
      for (const GradientSync sync : {GradientSync::bucket, GradientSync::overlap})
        for (const char* order : {"tp,cp,dp,pp", "pp,tp,cp,dp"}) {
          CAPTURE(dp);
          CAPTURE(pp);
          CAPTURE(order);
          const Options options = replicated(pp, dp, order);
          CHECK(on_all(options, [&](Rank& rank) {
                  return check_replicated(rank, options, one_f_one_b(pp, 4), sync);
                }) == "");
        }
}

TEST_CASE("... and over a pipeline with two stages per rank, with clipping too") {
  for (const int dp : {2, 3})
    for (const GradientSync sync : {GradientSync::bucket, GradientSync::overlap})
      for (const float clip : {0.0F, 0.5F}) {
        CAPTURE(dp);
        CAPTURE(clip);
        Options options = replicated(2, dp, "tp,cp,dp,pp");
        options.plan.optimizer.clip = clip;
        CHECK(on_all(options, [&](Rank& rank) {
                return check_replicated(rank, options, looped(2, 4), sync);
              }) == "");
      }
}
