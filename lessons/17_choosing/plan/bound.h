#pragma once

#include "lessons/17_choosing/plan/probe.h"

namespace lockstep {

/// Lower bounds on the needs of a configuration.
struct LowerBounds {
  Picoseconds step = 0;
  std::int64_t memory = 0;  ///< bytes, on the rank that needs most
};

/// Returns lower bounds for a configuration whose parts have these costs, from formulas that omit
/// unknown costs. The time includes each rank's own work, after one microbatch has passed through
/// the stages before it, and until its gradient is back at the first stage; it omits the exchanges
/// among replicas. The memory includes parameters, gradients and optimizer state, as ZeRO divides
/// them, and the activations of all microbatches in flight.
LowerBounds lower_bounds(const TrainingTask& task, const Configuration& configuration,
                         const ModelCosts& costs);

}  // namespace lockstep
