#pragma once

#include "lessons/02_data_parallel/prediction.h"
#include "lessons/14_mixed_precision/recompute_cost.h"

namespace lockstep {

/// Predicts one step of one rank: as for data parallelism, except that recomputation changes the
/// activations, and an optimizer without master weights keeps only momentum and variance.
inline Predicted predict_mixed_precision(const Plan& plan, const Place& place,
                                         std::int64_t bucket_bytes, Recompute mode, bool masters) {
  Predicted predicted = predict_data_parallel(plan, place, GradientSync::overlap, bucket_bytes);
  const GptConfig& model = plan.model();
  const int sequences = plan.microbatch_size(plan.batch.microbatches);
  predicted.peak_bytes[MemoryCategory::activations] = RecomputeBytes{model, sequences, mode}.peak;
  if (!masters) predicted.peak_bytes[MemoryCategory::optimizer] = 8 * model.trained_count();
  return predicted;
}

}  // namespace lockstep
