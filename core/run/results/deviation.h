#pragma once

#include <cmath>
#include <string>

#include "core/run/options/lesson_info.h"

namespace lockstep {

/// How far a run deviates from a single-device run (core/run/README.md, "Parity").
struct Parity {
  double max_relative_loss = 0;
  /// The largest ‖a - b‖₂ / max(‖b‖₂, √n · 0.02) over all tensors.
  double max_relative_parameter = 0;
  std::string worst_parameter;
  double final_loss = 0;      ///< the mean over the last tenth of the steps (rounded up)
  double reference_loss = 0;  ///< the same for the single-device run
  bool bitwise = false;       ///< all losses (all finite) and all parameters are bitwise identical

  bool within(const Tolerance& tolerance) const {
    if (tolerance.final_loss > 0)  // false for NaN
      return std::abs(final_loss / reference_loss - 1) <= tolerance.final_loss;
    return bitwise || (!tolerance.bitwise() && max_relative_loss <= tolerance.loss &&
                       max_relative_parameter <= tolerance.parameter);
  }
};

}  // namespace lockstep
