#pragma once

#include <memory>
#include <string>

#include "lessons/13_ring_attention/context_parallel.h"
#include "lessons/13_ring_attention/prediction.h"
#include "tests/support/portion.h"
#include "tests/support/tensor_checks.h"

/// Checks of context parallelism that run under both threads and processes.
namespace lockstep::testing {

/// A way to divide sequences and to reach other ranks' tokens.
struct Sequences {
  ContextMethod method = ContextMethod::ring;
  ContextLayout layout = ContextLayout::contiguous;
};
inline const std::vector<Sequences> all_sequences = {
    {ContextMethod::ring, ContextLayout::contiguous},
    {ContextMethod::ring, ContextLayout::zigzag},
    {ContextMethod::ring, ContextLayout::striped},
    {ContextMethod::ulysses, ContextLayout::contiguous},
    {ContextMethod::ulysses, ContextLayout::zigzag},
    {ContextMethod::gather, ContextLayout::contiguous},
    {ContextMethod::gather, ContextLayout::zigzag},
    {ContextMethod::gather, ContextLayout::striped},
};

inline const char* name_of(const Sequences& sequences) {
  const bool zigzag = sequences.layout == ContextLayout::zigzag;
  if (sequences.layout == ContextLayout::striped)
    return sequences.method == ContextMethod::ring ? "ring, striped" : "gather, striped";
  switch (sequences.method) {
    case ContextMethod::ulysses:
      return zigzag ? "ulysses, zigzag" : "ulysses, contiguous";
    case ContextMethod::gather:
      return zigzag ? "gather, zigzag" : "gather, contiguous";
    default:
      return zigzag ? "ring, zigzag" : "ring, contiguous";
  }
}

/// Selects how the ranks of cp divide sequences.
inline void set_sequences(Options& options, const Sequences& sequences) {
  options.plan.batch.context = sequences.layout;
  set_builder(options.plan, std::make_shared<const ContextParallel<>>(sequences.method));
}

/// A model that is small enough to train a few times but still learns. N may be 1, 2, 3, 4 or 8: 2N
/// divides the sequence, and N divides the heads.
inline Options small_sequences(int n, const Sequences& sequences) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::cp, n));
  set_model(options.plan,
            {.layers = 2, .hidden = 48, .heads = 24, .sequence = 48, .vocabulary = 257});
  set_sequences(options, sequences);
  options.plan.batch.microbatches = 1;
  options.plan.batch.sequences = 2;
  options.run.steps = training_steps();
  options.plan.optimizer.learning_rate = 1e-3F;  // the lessons' default
  options.plan.optimizer.clip = 0;
  options.plan.modelled = {Cluster::load("classroom")};
  return options;
}

/// One rank of a run of lesson 13.
class SharedSequences {
 public:
  SharedSequences(Rank& rank, const Options& options)
      : rank_(rank),
        options_(options),
        model_(rank.plan, rank.place, rank.device, Storage::own, &rank.groups),
        optimizer_(model_.parameters(), rank.device, options.plan.optimizer),
        replicas_(model_, rank.group(Axis::cp), one_bucket) {
    replicas_.set(GradientSync::bucket);
    predicted = predict_context_parallel(rank.plan, rank.place);
  }

  /// Computes the complete gradients of a step, and returns this rank's share of the loss.
  double backward(const Corpus& corpus, int step) {
    model_.zero_gradients();
    Batch batch = corpus.batch(options_.plan.seed, step, rank_.plan.samples(rank_.place));
    move_to(rank_.device, batch);
    const double loss = accumulate_gradients(model_, batch);
    replicas_.sum_gradients();
    return loss;
  }
  void update() { optimizer_.step(); }
  Gpt& model() { return model_; }

  Predicted predicted;

 private:
  Rank& rank_;
  const Options& options_;
  Gpt model_;
  AdamW optimizer_;
  DataParallel replicas_;
};

/// Like check_tensors.
inline std::string check_sequences(Rank& rank, const Options& options, const Sequences& sequences,
                                   Outcome* outcome = nullptr, Deviation* deviation = nullptr,
                                   double left = 0.8) {
  std::string wrong;
  SharedSequences layers{rank, options};
  const Outcome mine = train_layers(rank, options, layers, name_of(sequences), wrong);
  if (rank.id != 0) return wrong;
  if (outcome != nullptr) *outcome = mine;
  return wrong + check_outcome(options, mine, name_of(sequences), deviation, left);
}

}  // namespace lockstep::testing
