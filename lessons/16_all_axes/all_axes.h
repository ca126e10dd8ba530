#pragma once

#include <memory>

#include "lessons/13_ring_attention/context_parallel.h"
#include "lessons/14_mixed_precision/recompute.h"
#include "lessons/15_3d/composition.h"

namespace lockstep {

/// The techniques that a run uses along each axis of its mesh: those of lesson 15, context
/// parallelism along cp, and recomputation.
struct AllAxes : Composition {
  ContextMethod method = ContextMethod::ring;  ///< along cp (lesson 13)
  Recompute recompute = Recompute::full;       ///< lesson 14

  /// Returns how often a step runs the forward pass of a block for one microbatch.
  int forwards() const { return recompute == Recompute::full ? 2 : 1; }
};

/// Each builder changes the layers of the one that it is built on: recomputation the blocks,
/// context parallelism the attention in them, tensor or sequence parallelism the products.
inline std::shared_ptr<const ModelBuilder> builder_of(const AllAxes& chosen) {
  if (chosen.sequence_parallel)
    return std::make_shared<const Recomputing<ContextParallel<SequenceParallel>>>(chosen.recompute,
                                                                                  chosen.method);
  return std::make_shared<const Recomputing<ContextParallel<TensorParallel>>>(chosen.recompute,
                                                                              chosen.method);
}

}  // namespace lockstep
