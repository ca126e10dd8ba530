#pragma once

#include <vector>

#include "core/plan/slice.h"

namespace lockstep {

/// The order in which replicas' gradients are added, if they are not simply added one replica after
/// another. A floating-point sum depends on its order through rounding, and training amplifies the
/// difference. If a run and its single-device reference add in the same order, their results stay
/// bitwise identical for any number of steps.
struct SumOrder {
  /// A slice of a parameter. Its sum starts with replica `begin`, continues in ascending order,
  /// wraps around, and ends with replica `begin` - 1, as on a ring.
  struct Segment {
    int parameter = 0;  ///< ParameterSpec::order
    Slice slice;
    int begin = 0;
  };
  std::vector<Segment> segments;
  /// Whether each microbatch's gradients are summed over replicas before microbatches are added;
  /// otherwise each replica first adds its own microbatches.
  bool every_microbatch = false;

  bool empty() const { return segments.empty(); }
};

}  // namespace lockstep
