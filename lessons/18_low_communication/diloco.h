#pragma once

#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/18_low_communication/outer_optimizer.h"

namespace lockstep {

/// DiLoCo (Douillard 2023): each worker trains a copy of the model on its own share of the batch,
/// with an optimizer of its own, and exchanges nothing. After every H of these inner steps, the
/// workers combine their results in an outer step. Each worker's pseudo-gradient is the difference
/// between the outer parameters and its own; the workers sum the pseudo-gradients exactly as
/// DataParallel sums gradients, and all take the same step of the outer optimizer.
///
/// Therefore, H inner steps send as many bytes as one step of data parallelism.
class DiLoCo {
 public:
  /// `workers` are the ranks that train the model. The pseudo-gradients are sent in buckets of
  /// about `bucket_bytes`. Model and group must outlive this object.
  DiLoCo(Gpt& model, Group& workers, const OuterOptions& options, std::int64_t bucket_bytes)
      : sums_(model, workers, bucket_bytes),
        outer_(model.device(), model.parameters(), options),
        workers_(workers.size()),
        every_(options.every) {
    sums_.set(GradientSync::bucket);
  }

  /// Call this after every inner step.
  void after_step() {
    if (++steps_ % every_ == 0) outer_step();
  }

 private:
  void outer_step() {
    std::vector<View> differences;  // the inner optimizer no longer needs its gradients
    for (const Parameter* parameter : outer_.parameters())
      differences.push_back(parameter->gradient);
    outer_.subtract(differences);
    sums_.sum_gradients();
    outer_.step(differences, workers_);
  }

  DataParallel sums_;
  OuterOptimizer outer_;
  int workers_;
  int every_;
  int steps_ = 0;
};

}  // namespace lockstep
