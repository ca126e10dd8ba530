#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/update.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/15_3d/prediction.h"
#include "tests/support/copies_checks.h"

/// Requirements on data, pipeline and tensor parallelism on one mesh, in a form that both threads
/// and processes can run.
namespace lockstep::testing {

struct MeshShape {
  int dp = 1, pp = 1, tp = 1;
};

/// A model that is small enough to train a few times but still learns. tp may be 1, 2, 3, 4 or 8,
/// and pp at most 4; neither divides the vocabulary or the layers.
inline Options small_mesh(const MeshShape& mesh, bool tied = false, float clip = 0) {
  Options options;
  options.run.ranks = mesh.dp * mesh.pp * mesh.tp;
  options.run.dp = mesh.dp;
  options.run.pp = mesh.pp;
  options.run.tp = mesh.tp;
  options.run.model = {
      .layers = 5, .hidden = 48, .heads = 24, .sequence = 12, .vocabulary = 257, .tied = tied};
  options.run.builder = std::make_shared<const TensorParallel>();
  options.run.microbatches = {3};
  options.run.batch = 12;
  options.run.steps = 20;
  options.run.optimizer.learning_rate = 1e-3F;  // the lessons' default
  options.run.optimizer.clip = clip;
  options.platform.clock = Clock::modelled(Cluster::load("classroom"));
  return options;
}

/// One rank of a run, as in the lesson.
class OnMesh {
 public:
  static constexpr std::int64_t bucket_bytes = 20'000;

  OnMesh(Rank& rank, const Options& options)
      : schedule(one_f_one_b(options.run.pp, options.run.microbatches.front())),
        predicted(predict_3d(rank.plan, rank.place, schedule, bucket_bytes)),
        rank_(rank),
        options_(options),
        stage(rank.plan, rank.place, rank.device, Storage::own, &rank.groups),
        optimizer(stage.parameters(), rank.device, options.run.optimizer),
        replicas_(stage, rank.group(Axis::dp), bucket_bytes),
        update_(rank.endpoint, rank.group(Axis::pp), rank.plan, {&stage}, optimizer),
        pipeline_(rank.endpoint, rank.group(Axis::pp), schedule, {&stage},
                  rank.plan.boundary(schedule.microbatches)) {}

  std::optional<double> train(const Corpus& corpus, int step) {
    stage.zero_gradients();
    Batch mine = corpus.batch(options_.run.seed, step, rank_.plan.samples(rank_.place));
    move_to(rank_.device, mine);
    const std::optional<double> loss = pipeline_.step(mine);
    replicas_.sum_gradients();
    update_.step();
    return loss;
  }

  Schedule schedule;
  Predicted predicted;

 private:
  Rank& rank_;
  const Options& options_;

 public:
  Gpt stage;
  AdamW optimizer;

 private:
  DataParallel replicas_;
  PipelineUpdate update_;
  PipelineExecutor pipeline_;
};

/// Gathers all ranks' tensors on rank 0. Fails if replicas are not bitwise equal.
inline std::vector<NamedValues> collected(Rank& rank, std::vector<NamedValues> tensors) {
  RankResults mine{.rank = rank.id};
  mine.parameters = std::move(tensors);
  std::vector<RankResults> all;
  for (const std::string& bytes : gather_to_root(*rank.transport, mine.to_bytes()))
    all.push_back(RankResults::from_bytes(bytes));
  return rank.id == 0 ? collect_parameters(all) : std::vector<NamedValues>{};
}

/// Returns the first moments of one device after its first step, which are proportional to the
/// clipped gradients.
inline std::vector<NamedValues> first_momentum(const Options& options) {
  const Plan plan = options.plan_of_one_device();
  SoloDevice device{options.platform.on_gpus()};
  Gpt model{plan, plan.place(0), device};
  AdamW optimizer{model.parameters(), device, options.run.optimizer};
  const int pieces = options.run.dp * options.run.microbatches.front();
  Batch batch =
      copies_corpus(options.run.model)
          .batch(options.run.seed, 0, {.microbatches = pieces, .size = options.run.batch / pieces});
  accumulate_gradients(model, batch);
  optimizer.step();
  std::vector<NamedValues> momentum;
  for (const AdamW::Moments& each : optimizer.moments())
    momentum.push_back(named(device, *each.parameter, each.momentum));
  return momentum;
}

/// Trains, and compares the results with one device's and each step's bytes and memory peaks with
/// the derived values. Returns the errors found on this rank. The results are returned on rank 0.
inline std::string check_mesh(Rank& rank, const Options& options, Outcome* outcome = nullptr) {
  std::string wrong;
  const auto complain = [&](const std::string& what) {
    wrong += fmt::format("{}, rank {}: {}\n", rank.plan.mesh.json(), rank.id, what);
  };
  const Corpus corpus = copies_corpus(options.run.model);
  OnMesh mine{rank, options};
  RankResults record{.rank = rank.id};
  std::vector<NamedValues> momentum;
  for (int step = 0; step < options.run.steps; ++step) {
    const BytesSent before = rank.transport->bytes_sent();
    rank.memory.reset_peak();
    const std::optional<double> loss = mine.train(corpus, step);
    if (loss && rank.place.coordinate(Axis::tp) == 0) record.losses.emplace_back(step, *loss);
    if (step == 0)
      for (const AdamW::Moments& each : mine.optimizer.moments())
        momentum.push_back(named(rank.device, *each.parameter, each.momentum));
    if (step > 1) continue;  // later steps do not differ
    for (const MemoryCategory category : all_memory_categories) {
      const std::int64_t seen = rank.memory.peak().of(category);
      if (const std::int64_t derived = *mine.predicted.peak_bytes[category]; seen != derived)
        complain(fmt::format("{} peak at {} bytes, derived {}", lockstep::name_of(category), seen,
                             derived));
    }
    const BytesSent sent = rank.transport->bytes_sent() - before;
    if (const BytesSent derived = bytes_of(mine.predicted); sent != derived)
      complain(fmt::format("sent {}, derived {}", text_of(sent), text_of(derived)));
  }
  std::vector<NamedValues> values;
  for (const Parameter* each : mine.stage.parameters())
    values.push_back(named(rank.device, *each, each->master ? each->master : each->value));

  std::vector<RankResults> records;
  for (const std::string& bytes : gather_to_root(*rank.transport, record.to_bytes()))
    records.push_back(RankResults::from_bytes(bytes));
  const std::vector<NamedValues> parameters = collected(rank, std::move(values));
  const std::vector<NamedValues> clipped = collected(rank, std::move(momentum));
  if (rank.id != 0) return wrong;

  const std::vector<double> losses = collect_losses(records, options.run.steps);
  const Reference expected = train_on_one_device(
      options, corpus, {{"", 0, options.run.steps, options.run.microbatches.front()}});
  const bool narrow = is_narrow(options.run.model.dtype);
  const Parity parity = compare(losses, parameters, expected);
  const Tolerance tolerance = narrow ? Tolerance{.loss = 1e-2, .parameter = 0.1}
                                     : Tolerance{.loss = 1e-5, .parameter = 1e-4};
  if (!parity.within(tolerance))
    complain(fmt::format("losses {:.1e}, parameters {:.1e} ({}) from one device",
                         parity.max_relative_loss, parity.max_relative_parameter,
                         parity.worst_parameter));
  if (const double off = worst_difference(clipped, first_momentum(options));
      !(off <= (narrow ? 5e-2 : 1e-5)))
    complain(fmt::format("first momentum {:.1e} from one device", off));
  if (!(losses.back() < 0.8 * losses.front()))
    complain(fmt::format("the loss fell only from {} to {}", losses.front(), losses.back()));
  if (outcome != nullptr) *outcome = {losses, parameters, clipped, {}};
  return wrong;
}

}  // namespace lockstep::testing
