#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "lessons/12_expert_parallel/experiment/expert_load.h"
#include "lessons/12_expert_parallel/experiment/whole_batch.h"
#include "lessons/12_expert_parallel/experts_over_tp.h"
#include "lessons/12_expert_parallel/prediction.h"
#include "tests/support/copies_checks.h"
#include "tests/support/portion.h"

/// Checks of expert parallelism that run under both threads and processes.
namespace lockstep::testing {

/// A run of a mixture of experts, with the log that its ranks and its reference share.
struct ExpertRun {
  /// A model that is small enough to train a few times but still learns. `ep` of `dp` ranks divide
  /// the experts among themselves; with tp > 1 and ep = 1, tensor-parallel ranks do.
  ExpertRun(int dp, int ep, const MixtureOfExperts& moe_, int tp = 1) : moe(moe_) {
    options.plan.set_mesh(Mesh{dp * tp, {tp, 1, dp, 1}}.with_experts(ep));
    set_model(options.plan,
              {.layers = 2, .hidden = 32, .heads = 4, .sequence = 24, .vocabulary = 257});
    options.plan.batch.microbatches = 1;
    options.plan.batch.sequences = dp == 3 ? 6 : 8;
    options.run.steps = training_steps();
    options.plan.optimizer.learning_rate = 1e-3F;  // the lessons' default
    options.plan.optimizer.clip = 0;
    options.plan.modelled = {Cluster::load("classroom")};
    settle();
  }
  /// Call this after changing the options. `replayed` says whether one device will replay the run.
  void settle(bool replayed = true) {
    log = std::make_unique<RoutingRecord>();
    if (replayed)
      log->set_replay(options.plan.mesh.size(Axis::dp), options.plan.batch.microbatches,
                      /*context_ranks=*/1, moe.balance_over_batch);
    moe.batch_tokens =
        static_cast<std::int64_t>(options.plan.batch.sequences) * options.plan.model().sequence;
    set_builder(options.plan, builder()(moe, *log));
  }
  ExpertBuilder builder() const {
    return [over_tp = options.plan.mesh.size(Axis::tp) > 1](
               const MixtureOfExperts& mixture,
               RoutingLog& routings) -> std::shared_ptr<const ModelBuilder> {
      if (over_tp) return std::make_shared<const ExpertsOverTensorParallel>(mixture, routings);
      return std::make_shared<const ExpertParallel<>>(mixture, routings);
    };
  }
  /// Predicts the step that follows.
  Predicted predict(const RankContext& rank, std::int64_t bucket_bytes) const {
    return predict_expert_parallel(rank, moe, builder(), *log, options.plan.batch.microbatches,
                                   bucket_bytes);
  }

  MixtureOfExperts moe;
  Options options;
  std::unique_ptr<RoutingRecord> log;
};

constexpr std::int64_t expert_buckets = 20'000;

/// One rank of the run.
class ExpertRank {
 public:
  ExpertRank(Rank& rank, ExpertRun& run)
      : rank_(rank),
        run_(run),
        model_(rank.plan, rank.place, rank.device, Storage::own, &rank.groups),
        optimizer_(model_.parameters(), rank.device, run.options.plan.optimizer),
        same_experts_(rank.endpoint, rank.plan.mesh.replicas_of_experts(rank.id), "same experts",
                      rank.transport->open_channels(Group::channels_taken)),
        dense_(model_, units_with(model_.stored_units(), false), rank.group(Axis::dp),
               expert_buckets),
        experts_(model_, units_with(model_.stored_units(), true), same_experts_, expert_buckets) {
    dense_.set(GradientSync::bucket);
    experts_.set(GradientSync::bucket);
  }

  double backward(const Corpus& corpus, int step) {
    model_.zero_gradients();
    Batch batch = corpus.batch(run_.options.plan.seed, step, rank_.plan.samples(rank_.place));
    move_to(rank_.device, batch);
    const double loss = expert_gradients(model_, batch, run_.moe);
    dense_.sum_gradients();
    experts_.sum_gradients();
    return loss;
  }
  void update() { optimizer_.step(); }
  Gpt& model() { return model_; }

 private:
  Rank& rank_;
  ExpertRun& run_;
  Gpt model_;
  AdamW optimizer_;
  Group same_experts_;
  DataParallel dense_, experts_;
};

/// Trains, and compares each step's bytes and memory peaks with those derived from its routing.
/// Appends errors to `wrong`. Returns the results on rank 0.
inline Outcome train_experts(Rank& rank, ExpertRun& run, std::string& wrong) {
  const Corpus corpus = copies_corpus(run.options.plan.model());
  ExpertRank mine{rank, run};
  RankResults record{.rank = rank.id}, first{.rank = rank.id};
  const auto complain = [&](const std::string& what) {
    wrong += fmt::format("rank {} of {}: {}\n", rank.id, rank.count, what);
  };
  for (int step = 0; step < run.options.run.steps; ++step) {
    Predicted predicted = run.predict(rank, expert_buckets);
    const auto before = rank.transport->bytes_sent();
    rank.memory.reset_peak();
    const double loss = mine.backward(corpus, step);
    if (rank.place.coordinate(Axis::tp) == 0) record.losses.emplace_back(step, loss);
    if (step == 0)
      for (const Parameter* each : mine.model().parameters())
        first.parameters.push_back(named(rank.device, *each, each->gradient));
    mine.update();
    predicted.at_end(predicted);
    compare_with_prediction(rank, before, predicted, complain);
  }
  for (const Parameter* each : mine.model().parameters())
    record.parameters.push_back(
        named(rank.device, *each, each->master ? each->master : each->value));
  if (run.options.platform.launch == Launch::mpi) collect_routing(rank, *run.log);
  const std::vector<RankResults> records = gathered(rank, record), firsts = gathered(rank, first);
  if (rank.id != 0) return {};
  return {collect_losses(records, run.options.run.steps),
          collect_parameters(records),
          collect_parameters(firsts),
          {}};
}

/// The whole model's gradients in the first step, computed on one device.
inline std::vector<NamedValues> first_expert_gradients(const ExpertRun& run) {
  const Options& options = run.options;
  const Plan plan = options.plan.on_one_device();
  SoloDevice device{options.platform.on_gpus()};
  Gpt model{plan, plan.place(0), device};
  const int pieces = run.moe.balance_over_batch
                         ? 1
                         : options.plan.mesh.size(Axis::dp) * options.plan.batch.microbatches;
  Batch batch = copies_corpus(options.plan.model())
                    .batch(options.plan.seed, 0,
                           {.microbatches = pieces, .size = options.plan.batch.sequences / pieces});
  move_to(device, batch);
  accumulate_gradients(model, batch);
  std::vector<NamedValues> gradients;
  for (const Parameter* parameter : model.parameters())
    gradients.push_back(named(device, *parameter, parameter->gradient));
  return gradients;
}

/// Each row that a rank sends is received exactly once, by the rank that holds its expert, and each
/// expert keeps at most its capacity.
inline std::string check_conservation(const Plan& plan, const MixtureOfExperts& moe,
                                      RoutingLog& log) {
  std::string wrong;
  const int ep = plan.mesh.size(Axis::ep), local = moe.experts / ep;
  const std::int64_t tokens = plan.boundary(plan.batch.microbatches).shape.rows();
  for (int layer = 0; layer < plan.model().layers; ++layer)
    for (std::size_t call = 0; call < log.calls(0, layer).size(); ++call)
      for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
        const RoutedMicrobatch& mine = log.calls(rank, layer)[call];
        const std::vector<int> group = plan.mesh.group(rank, Axis::ep);
        const int self = plan.mesh.coordinate(rank, Axis::ep);
        std::int64_t choices = 0;
        for (int e = 0; e < moe.experts; ++e) {
          const auto i = static_cast<std::size_t>(e);
          choices += mine.chosen[i];
          if (mine.kept[i] != std::min(mine.chosen[i], moe.capacity(tokens)))
            wrong += fmt::format("expert {} kept {} of {}\n", e, mine.kept[i], mine.chosen[i]);
        }
        if (choices != tokens * moe.top_k) wrong += "a token has made more or fewer choices\n";
        for (int member = 0; member < ep; ++member) {
          const auto i = static_cast<std::size_t>(member);
          const std::int64_t to =
              std::accumulate(mine.kept.begin() + member * local,
                              mine.kept.begin() + (member + 1) * local, std::int64_t{0});
          const RoutedMicrobatch& theirs = log.calls(group[i], layer)[call];
          if (mine.sent[i] != to || theirs.received[static_cast<std::size_t>(self)] != to)
            wrong +=
                fmt::format("rank {} to {}: {} accepted, {} sent, {} received\n", rank, group[i],
                            to, mine.sent[i], theirs.received[static_cast<std::size_t>(self)]);
        }
      }
  return wrong;
}

/// The deviation of a run from one device.
struct ExpertDeviation {
  double loss = 0, parameter = 0, gradient = 0;
  std::size_t flips = 0;
};

/// Trains, and compares the results with one device's. The final loss must be below learned(left)
/// times the initial loss.
inline std::string check_experts(Rank& rank, ExpertRun& run, Outcome* outcome = nullptr,
                                 ExpertDeviation* deviation = nullptr, double left = 0.85) {
  std::string wrong;
  const Outcome mine = train_experts(rank, run, wrong);
  if (rank.id != 0) return wrong;
  const auto complain = [&](const std::string& what) { wrong += what + "\n"; };
  if (run.options.plan.mesh.size(Axis::tp) == 1)
    wrong += check_conservation(rank.plan, run.moe, *run.log);
  const Options& options = run.options;
  const Corpus corpus = copies_corpus(options.plan.model());
  const std::vector<Phase> phases{{"", 0, options.run.steps, options.plan.batch.microbatches}};
  const Reference expected = run.moe.balance_over_batch
                                 ? train_in_one_microbatch({options, corpus, phases, {}, {}})
                                 : train_on_one_device(options, corpus, phases);
  for (const Flip& flip : run.log->flips())
    if (!flip.adopted)
      complain(fmt::format("rank {}, layer {}, microbatch {}: token {} is {} from a tie",
                           flip.replica, flip.layer, flip.call, flip.token, flip.distance));
  const bool narrow = is_narrow(options.plan.model().dtype);
  const Parity parity = compare(mine.losses, mine.parameters, expected);
  const Tolerance tolerance = narrow ? Tolerance{.loss = 1e-2, .parameter = 0.1}
                                     : Tolerance{.loss = 1e-5, .parameter = 1e-4};
  if (!parity.within(tolerance))
    complain(fmt::format("losses {:.1e}, parameters {:.1e} ({}) from one device",
                         parity.max_relative_loss, parity.max_relative_parameter,
                         parity.worst_parameter));
  const Parity gradients = compare({}, mine.gradients, {{}, first_expert_gradients(run)});
  const double off = gradients.max_relative_parameter;
  if (!(off <= (narrow ? 5e-2 : 1e-5)))
    complain(
        fmt::format("first gradients {:.1e} ({}) from one device", off, gradients.worst_parameter));
  if (!(mine.losses.back() < learned(left) * mine.losses.front()))
    complain(
        fmt::format("the loss fell only from {} to {}", mine.losses.front(), mine.losses.back()));
  if (outcome != nullptr) *outcome = mine;
  if (deviation != nullptr)
    *deviation = {parity.max_relative_loss, parity.max_relative_parameter, off,
                  run.log->flips().size()};
  return wrong;
}

}  // namespace lockstep::testing
