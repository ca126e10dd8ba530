#pragma once

#include "core/comm/rank_context.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/12_expert_parallel/experts.h"

namespace lockstep {

/// One rank of a mixture of experts: the model, the sums of its gradients and its optimizer, and a
/// step of training. A rank of the run and its dry run execute this code.
class ExpertTraining {
 public:
  /// All ranks of the run must create theirs at the same point of the program. The objects that
  /// `rank` refers to must outlive this object.
  ExpertTraining(const RankContext& rank, std::int64_t bucket_bytes)
      : model_(rank.plan, rank.place, rank.device(), Storage::own, &rank.groups),
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
    const BatchLoss loss = accumulate_gradients(model_, mine);
    dense_.sum_gradients();
    experts_.sum_gradients();
    optimizer_.step();
    return loss;
  }

  Gpt& model() { return model_; }
  AdamW& adamw() { return optimizer_; }

 private:
  Gpt model_;
  AdamW optimizer_;
  Group same_experts_;  ///< the ranks with the same experts
  DataParallel dense_;  ///< the gradients of everything else
  DataParallel experts_;
};

}  // namespace lockstep
