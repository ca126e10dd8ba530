#pragma once

#include <cstdint>

#include "core/time/time.h"
#include "lessons/17_choosing/plan/configuration.h"

namespace lockstep {

/// The cost of a part of the model on a rank, for one microbatch and without replicas.
struct PartCosts {
  Picoseconds forward = 0, backward = 0;  ///< with the exchanges along tp, cp and ep
  Picoseconds update = 0;                 ///< of the whole optimizer state
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;  ///< bytes
  std::int64_t activations = 0;                               ///< bytes kept for backward

  PartCosts& operator+=(const PartCosts& other);
  PartCosts times(std::int64_t count) const;
  PartCosts minus(const PartCosts& other) const;
};

/// The costs of the model's parts: of one block, and of the layers that the first and the last
/// stage hold besides their blocks.
struct ModelCosts {
  PartCosts block, embedding, head;
};

/// Measures the parts in two steps of a pipeline of two stages with few blocks, for the layers that
/// `configuration` has. Only its tp, cp, ep, microbatch and recompute matter: all configurations
/// that share these have layers of the same costs.
///
/// In a step, a part costs at least this much, because other messages share its links, and
/// collectives slow its kernels.
ModelCosts model_costs(const TrainingTask& task, const Configuration& configuration);

}  // namespace lockstep
