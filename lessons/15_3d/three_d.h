#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "lessons/07_sequence_parallel/sequence_parallel.h"

namespace lockstep {

// Three techniques on one mesh of dp x pp x tp ranks, each within its own axis:
//
//     tp   the ranks share every layer: lesson 6 or 7, chosen by builder_of
//     pp   the ranks have successive stages: a schedule of lessons 9 to 11
//     dp   the ranks have the same stages and different samples: lesson 2, 3, 4 or 5 (replicas.h)
//
// They meet where one axis has to know of another: the tensor between two stages may be divided
// along tp (boundary_of), and ZeRO-3 gathers parameters in the order of the schedule.

/// The techniques that a run uses along dp and tp. (Along pp, it is a schedule.)
struct Composition {
  bool sequence_parallel = false;  ///< along tp: lesson 7's layers, otherwise lesson 6's
  int zero = 0;                    ///< along dp_cp: lesson 2, or ZeRO 1, 2 or 3 (lessons 3 to 5)
  int shard = 0;                   ///< ranks that share one copy of the states; 0: all of them
  std::int64_t bucket_bytes = 50'000;

  /// Returns the number of ranks in each group that shares one copy of the states or, without ZeRO,
  /// sums gradients.
  int sharers(const Place& place) const { return shard > 0 ? shard : place.size(Axis::dp_cp); }
  /// Returns the number of ranks among which each stage's optimizer states are divided.
  int shards(const Place& place) const { return zero > 0 ? sharers(place) : 1; }
};

/// Returns whether ZeRO runs with a schedule (KnownSchedule::word). Stages 2 and 3 reduce the
/// gradients of each microbatch, and gather and discard parameters, in an order that the lessons
/// predict only for 1F1B.
inline bool zero_runs_with(std::string_view schedule, int zero) {
  return zero < 2 || schedule == "1f1b";
}

inline std::shared_ptr<const ModelBuilder> builder_of(const Composition& chosen) {
  if (chosen.sequence_parallel) return std::make_shared<const SequenceParallel>();
  return std::make_shared<const TensorParallel>();
}

/// Returns the tensor that the ranks of one stage send to the ranks of the next.
inline Boundary boundary_of(const Plan& plan, int microbatches, const Composition& chosen) {
  return chosen.sequence_parallel ? sequence_boundary(plan, microbatches)
                                  : plan.boundary(microbatches);
}

/// Returns whether, on the stage of a rank of a 1F1B pipeline, each microbatch's backward pass is
/// certain to follow its forward pass. This is so only on the last stage.
inline bool backward_follows(const Plan& plan, const Place& place) {
  return place.only_stage() + 1 == plan.stages();
}

}  // namespace lockstep
