#pragma once

#include <cstdint>
#include <vector>

#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/plan/slice.h"

namespace lockstep {

/// In which order replicas' gradients are added, where that is not one replica after another. A sum
/// of floating-point numbers depends on its order by a rounding error, and training makes that
/// grow: a run and one device that add in the same order have the same bits after any number of
/// steps.
struct SumOrder {
  /// A slice of a parameter: the sum begins with replica `begin`, goes round, and ends with the one
  /// before it, as on a ring.
  struct Segment {
    int parameter = 0;  ///< its order (ParameterSpec)
    Slice slice;
    int begin = 0;
  };
  std::vector<Segment> segments;
  /// Whether each microbatch's gradients are summed over replicas, and the sums added; otherwise
  /// each replica adds its microbatches' first.
  bool every_microbatch = false;

  bool empty() const { return segments.empty(); }
};

/// Gradients of a whole batch on one device that plays all replicas, one after another, and adds
/// their gradients in that order. `batches` has each replica's share. Returns the loss. Throws
/// std::invalid_argument if the order does not cover every trained element.
double accumulate_in_order(Gpt& model, const std::vector<Batch>& batches, const SumOrder& order);

}  // namespace lockstep
