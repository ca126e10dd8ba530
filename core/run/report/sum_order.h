#pragma once

#include <cstdint>
#include <vector>

#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/plan/slice.h"

namespace lockstep {

/// The order in which replicas' gradients are added, if not one replica after another. A
/// floating-point sum depends on its order through rounding, and training amplifies the difference.
/// If a run and one device add in the same order, they stay bitwise equal for any number of steps.
struct SumOrder {
  /// A slice of a parameter: the sum starts with replica `begin`, goes around, and ends with the
  /// replica before it, as on a ring.
  struct Segment {
    int parameter = 0;  ///< its order (ParameterSpec)
    Slice slice;
    int begin = 0;
  };
  std::vector<Segment> segments;
  /// Whether each microbatch's gradients are summed over replicas before microbatches are added;
  /// otherwise each replica first adds its own microbatches.
  bool every_microbatch = false;

  bool empty() const { return segments.empty(); }
};

/// Computes the gradients of a whole batch on one device, which plays all replicas in turn and adds
/// their gradients in `order`. `batches` has each replica's share. Returns the loss. Throws
/// std::invalid_argument if the order does not cover every trained element.
double accumulate_in_order(Gpt& model, const std::vector<Batch>& batches, const SumOrder& order);

}  // namespace lockstep
