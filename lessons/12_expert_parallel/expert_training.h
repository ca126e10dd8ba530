#pragma once

#include <vector>

#include "core/comm/rank_context.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "core/model/losses.h"
#include "core/model/stash.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/12_expert_parallel/experts.h"
#include "lessons/12_expert_parallel/routing.h"

namespace lockstep {

/// Like accumulate_gradients, but runs all forward passes before the first backward pass, as GPipe
/// does. The model then keeps the activations of all microbatches at the same time.
inline BatchLoss forwards_first(Gpt& model, const Batch& batch) {
  const std::size_t m = batch.microbatches.size();
  Losses losses{model.device(), m};
  std::vector<Stash> stashes(m);
  const auto each = [&](const char* name, Category category, const auto& run) {
    for (std::size_t i = 0; i < m; ++i) {
      model.device().compute.range(
          {.name = name, .category = category, .microbatch = static_cast<int>(i)}, [&] { run(i); });
      record_memory(model.device());
    }
  };
  each("forward", Category::forward, [&](std::size_t i) {
    model.forward(batch.microbatches[i], {}, stashes[i]);
    losses.take(i, model, stashes[i]);
  });
  each("backward", Category::backward, [&](std::size_t i) { model.backward({}, stashes[i]); });
  return losses.total();
}

/// Accumulates the gradients of a batch, in an order that suits its load-balance loss.
inline BatchLoss expert_gradients(Gpt& model, const Batch& batch, const MixtureOfExperts& moe) {
  return moe.balance_over_batch ? forwards_first(model, batch) : accumulate_gradients(model, batch);
}

/// One rank of a mixture of experts: the model, the sums of its gradients and its optimizer, and a
/// step of training. A rank of the run and its dry run execute this code.
class ExpertTraining {
 public:
  /// All ranks of the run must create theirs at the same point of the program. The objects that
  /// `rank` refers to must outlive this object.
  ExpertTraining(const RankContext& rank, const MixtureOfExperts& moe, std::int64_t bucket_bytes)
      : moe_(moe),
        model_(rank.plan, rank.place, rank.device(), Storage::own, &rank.groups),
        optimizer_(model_.parameters(), rank.device(), rank.plan.optimizer),
        same_experts_(rank.endpoint, rank.plan.mesh.replicas_of_experts(rank.place.rank),
                      "same experts", rank.endpoint.transport.open_channels(Group::channels_taken)),
        dense_(model_, units_with(model_.stored_units(), false), rank.group(Axis::dp),
               bucket_bytes),
        experts_(model_, units_with(model_.stored_units(), true), same_experts_, bucket_bytes) {
    dense_.set(GradientSync::bucket);
    experts_.set(GradientSync::bucket);
  }

  /// Trains on one batch. Returns its loss.
  BatchLoss step(const Batch& mine) {
    model_.zero_gradients();
    const BatchLoss loss = expert_gradients(model_, mine, moe_);
    dense_.sum_gradients();
    experts_.sum_gradients();
    optimizer_.step();
    return loss;
  }

  Gpt& model() { return model_; }
  AdamW& adamw() { return optimizer_; }

 private:
  MixtureOfExperts moe_;
  Gpt model_;
  AdamW optimizer_;
  Group same_experts_;  ///< the ranks with the same experts
  DataParallel dense_;  ///< the gradients of everything else
  DataParallel experts_;
};

}  // namespace lockstep
