#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lessons/07_sequence_parallel/experiment/paper_activations.h"
#include "lessons/07_sequence_parallel/prediction.h"
#include "lessons/07_sequence_parallel/sequence_parallel.h"
#include "tests/support/copies_checks.h"
#include "tests/support/portion.h"

/// Checks of tensor and sequence parallelism that run under both threads and processes.
namespace lockstep::testing {

enum class Sharing { tensor, sequence, regathered };
inline const std::vector<Sharing> all_sharings = {Sharing::tensor, Sharing::sequence,
                                                  Sharing::regathered};

inline const char* name_of(Sharing sharing) {
  constexpr const char* names[] = {"tensor", "sequence", "regathered"};
  return names[static_cast<int>(sharing)];
}

inline std::shared_ptr<const ModelBuilder> builder_of(Sharing sharing) {
  if (sharing == Sharing::tensor) return std::make_shared<const TensorParallel>();
  return std::make_shared<const SequenceParallel>(sharing == Sharing::regathered);
}

inline Predicted predicted_of(Sharing sharing, const Plan& plan, const Place& place) {
  if (sharing == Sharing::tensor) return predict_tensor_parallel(plan, place);
  return predict_sequence_parallel(plan, place, sharing == Sharing::regathered);
}

/// A model that is small enough to train a few times but still learns. t may be 1, 2, 3, 4 or 8; it
/// divides the heads and the sequence, but not the vocabulary.
inline Options small_tensors(int t, Sharing sharing) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::tp, t));
  set_model(options.plan,
            {.layers = 2, .hidden = 48, .heads = 24, .sequence = 24, .vocabulary = 257});
  set_builder(options.plan, builder_of(sharing));
  options.plan.batch.microbatches = 1;
  options.plan.batch.sequences = 4;
  options.run.steps = training_steps();
  options.plan.optimizer.learning_rate = 1e-3F;  // the lessons' default
  options.plan.optimizer.clip = 0;
  options.plan.modelled = {Cluster::load("classroom")};
  return options;
}

/// One rank of a run. With several replicas (dp), their gradients are summed during the backward
/// pass; `predicted` then excludes these sums.
class SharedLayers {
 public:
  SharedLayers(Rank& rank, const Options& options, Sharing sharing)
      : predicted(predicted_of(sharing, rank.plan, rank.place)),
        rank_(rank),
        options_(options),
        model_(rank.plan, rank.place, rank.device, Storage::own, &rank.groups),
        optimizer_(model_.parameters(), rank.device, options.plan.optimizer) {
    if (rank.place.size(Axis::dp) > 1)
      replicas_.emplace(model_, rank.group(Axis::dp), unit_buckets);
    // Registered after the replicas' hooks, so that they see the summed gradients.
    if (sharing != Sharing::tensor) sums_.emplace(model_, rank.group(Axis::tp));
  }

  /// Computes the gradients of a step, and returns the loss.
  double backward(const Corpus& corpus, int step) {
    model_.zero_gradients();
    Batch batch = corpus.batch(options_.plan.seed, step, rank_.plan.samples(rank_.place));
    move_to(rank_.device, batch);
    return accumulate_gradients(model_, batch);
  }
  void update() {
    if (replicas_) replicas_->sum_gradients();
    optimizer_.step();
  }
  Gpt& model() { return model_; }

  Predicted predicted;

 private:
  Rank& rank_;
  const Options& options_;
  Gpt model_;
  AdamW optimizer_;
  std::optional<DataParallel> replicas_;
  std::optional<NormSums> sums_;
};

/// Trains with `layers`, which has the members of SharedLayers, and compares each step's bytes and
/// memory peaks with the derived values. Appends errors to `wrong`. Returns the results on rank 0.
template <class Layers>
Outcome train_layers(Rank& rank, const Options& options, Layers& layers, const char* name,
                     std::string& wrong) {
  const Corpus corpus = copies_corpus(options.plan.model());
  RankResults record{.rank = rank.id}, first{.rank = rank.id};
  const auto complain = [&](const std::string& what) {
    wrong += fmt::format("{}, rank {} of {}: {}\n", name, rank.id, rank.count, what);
  };
  for (int step = 0; step < options.run.steps; ++step) {
    const auto before = rank.transport->bytes_sent();
    rank.memory.reset_peak();
    const double loss = layers.backward(corpus, step);
    // All ranks along tp know the loss; the report takes it from one of them.
    if (rank.place.coordinate(Axis::tp) == 0) record.losses.emplace_back(step, loss);
    layers.update();
    if (step == 0)
      for (const Parameter* each : layers.model().parameters())
        first.parameters.push_back(named(rank.device, *each, each->gradient));
    if (step > 1 || rank.place.size(Axis::dp) > 1) continue;  // later steps do not differ
    compare_with_prediction(rank, before, layers.predicted, complain);
  }
  for (const Parameter* each : layers.model().parameters())
    record.parameters.push_back(
        named(rank.device, *each, each->master ? each->master : each->value));

  const std::vector<RankResults> records = gathered(rank, record), firsts = gathered(rank, first);
  if (rank.id != 0) return {};
  // collect_parameters() fails if replicas of a parameter are not bitwise identical.
  return {collect_losses(records, options.run.steps),
          collect_parameters(records),
          collect_parameters(firsts),
          {}};
}

/// The deviation of a run from one device.
struct Deviation {
  double loss = 0, parameter = 0, gradient = 0;
};

/// Compares the results of train_layers() on rank 0 with one device's. The final loss must be below
/// learned(left) times the initial loss.
inline std::string check_outcome(const Options& options, const Outcome& mine, const char* name,
                                 Deviation* deviation, double left) {
  std::string wrong;
  const Reference expected =
      train_on_one_device(options, copies_corpus(options.plan.model()),
                          {{"", 0, options.run.steps, options.plan.batch.microbatches}});
  const auto complain = [&](const std::string& what) {
    wrong += fmt::format("{} on {} ranks: {}\n", name, options.plan.mesh.ranks(), what);
  };
  const bool narrow = is_narrow(options.plan.model().dtype);
  const Parity parity = compare(mine.losses, mine.parameters, expected);
  const Tolerance tolerance = narrow ? Tolerance{.loss = 1e-2, .parameter = 0.1}
                                     : Tolerance{.loss = 1e-5, .parameter = 1e-4};
  if (!parity.within(tolerance))
    complain(fmt::format("losses {:.1e}, parameters {:.1e} ({}) from one device",
                         parity.max_relative_loss, parity.max_relative_parameter,
                         parity.worst_parameter));
  const double off = worst_difference(mine.gradients, first_gradients(options));
  if (!(off <= (narrow ? 5e-2 : 1e-5)))
    complain(fmt::format("first gradients {:.1e} from one device", off));
  if (!(mine.losses.back() < learned(left) * mine.losses.front()))
    complain(
        fmt::format("the loss fell only from {} to {}", mine.losses.front(), mine.losses.back()));
  if (deviation != nullptr)
    *deviation = {parity.max_relative_loss, parity.max_relative_parameter, off};
  return wrong;
}

/// Trains, and compares the results with one device's. The outcome and the deviation are returned
/// on rank 0 only.
inline std::string check_tensors(Rank& rank, const Options& options, Sharing sharing,
                                 Outcome* outcome = nullptr, Deviation* deviation = nullptr,
                                 double left = 0.8) {
  std::string wrong;
  SharedLayers layers{rank, options, sharing};
  const Outcome mine = train_layers(rank, options, layers, name_of(sharing), wrong);
  if (rank.id != 0) return wrong;
  if (outcome != nullptr) *outcome = mine;
  return wrong + check_outcome(options, mine, name_of(sharing), deviation, left);
}

}  // namespace lockstep::testing
