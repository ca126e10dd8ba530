#pragma once

#include <vector>

#include "core/plan/gpt_config.h"

namespace lockstep {

/// The layers of a pipeline stage: blocks [first, last), plus the embedding on the first stage and
/// the head on the last.
struct StageLayers {
  int first = 0;
  int last = 0;
  bool embedding = false;
  bool head = false;  ///< final norm, output head and loss

  int count() const { return last - first; }
  /// Returns whether a unit (numbered as in GptConfig::frozen) runs on this stage.
  bool runs(int unit, const GptConfig& config) const {
    return unit == 0 ? embedding : unit > config.layers ? head : first < unit && unit <= last;
  }
  bool operator==(const StageLayers&) const = default;

  /// Returns all layers of the model, for a single device.
  static StageLayers whole(const GptConfig& config);
  /// Returns the layers of stage `stage` of `stages`. `split` has the number of blocks of each
  /// stage; if it is empty, even_split() divides the blocks. Throws UsageError, naming --layers or
  /// --split, if a stage has no block, or if the split does not fit the model or the stages.
  static StageLayers of(const GptConfig& config, int stage, int stages,
                        const std::vector<int>& split = {});
};

/// Divides the blocks as evenly as possible. If they do not divide evenly, the first stages get one
/// more block each. Throws UsageError, naming --layers, if there are more stages than blocks.
std::vector<int> even_split(const GptConfig& config, int stages);

}  // namespace lockstep
