#pragma once

#include "core/plan/config.h"

namespace lockstep {

/// Which part of a model a pipeline stage holds: blocks [first, last), and what lies at the ends.
struct StageLayers {
  int first = 0;
  int last = 0;
  bool embedding = false;
  bool head = false;  ///< final LayerNorm, output head and loss

  int count() const { return last - first; }
  /// Whether a unit (GptConfig::frozen numbers them) runs on this stage.
  bool runs(int unit, const GptConfig& config) const {
    return unit == 0 ? embedding : unit > config.layers ? head : first < unit && unit <= last;
  }
  bool operator==(const StageLayers&) const = default;

  /// The model on one device.
  static StageLayers whole(const GptConfig& config);
  /// Stage `stage` of `stages`: contiguous blocks, as even as can be; if they do not divide evenly,
  /// the earlier stages have one more. Throws UsageError, naming --layers, for more stages than
  /// blocks.
  static StageLayers of(const GptConfig& config, int stage, int stages);
};

}  // namespace lockstep
