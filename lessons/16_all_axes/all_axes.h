#pragma once

#include <memory>

#include "lessons/13_ring_attention/context_parallel.h"
#include "lessons/14_mixed_precision/recompute.h"
#include "lessons/15_3d/three_d.h"
#include "lessons/16_all_axes/divided_experts.h"

namespace lockstep {

/// The techniques that a run uses along each axis of its mesh: those of lesson 15, context
/// parallelism along cp, experts along ep, and recomputation.
struct AllAxes : Composition {
  ContextMethod method = ContextMethod::ring;  ///< along cp (lesson 13)
  Recompute recompute = Recompute::full;       ///< lesson 14
  MixtureOfExperts moe{.experts = 0};          ///< along ep (lesson 12); 0: dense MLPs
  int context_ranks = 1;                       ///< the size of cp

  bool has_experts() const { return moe.experts > 0; }
};

/// Each builder changes the layers of the one that it is built on: recomputation the blocks,
/// context parallelism the attention in them, expert parallelism the MLPs, tensor or sequence
/// parallelism (Products) the products.
template <class Products>
std::shared_ptr<const ModelBuilder> built_on(const AllAxes& chosen, RoutingLog& log) {
  if (chosen.has_experts())
    return std::make_shared<const Recomputing<ContextParallel<DividedExperts<Products>>>>(
        chosen.recompute, chosen.method, chosen.moe, log, chosen.context_ranks);
  return std::make_shared<const Recomputing<ContextParallel<Products>>>(chosen.recompute,
                                                                        chosen.method);
}

/// `log` must outlive the builder.
inline std::shared_ptr<const ModelBuilder> builder_of(const AllAxes& chosen, RoutingLog& log) {
  return chosen.sequence_parallel ? built_on<SequenceParallel>(chosen, log)
                                  : built_on<TensorParallel>(chosen, log);
}

}  // namespace lockstep
