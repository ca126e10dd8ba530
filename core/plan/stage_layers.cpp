#include "core/plan/stage_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/error.h"

namespace lockstep {

StageLayers StageLayers::whole(const GptConfig& config) {
  return {.first = 0, .last = config.layers, .embedding = true, .head = true};
}

StageLayers StageLayers::of(const GptConfig& config, int stage, int stages) {
  if (stages < 1 || stage < 0 || stage >= stages)
    throw std::invalid_argument{fmt::format("no stage {} in a pipeline of {}", stage, stages)};
  if (config.layers < stages) {
    throw UsageError{fmt::format(
        "--layers {}: {} pipeline stages need at least one layer each; use --layers {} or --pp {}",
        config.layers, stages, stages, config.layers)};
  }
  const int each = config.layers / stages, left_over = config.layers % stages;
  const int first = stage * each + std::min(stage, left_over);
  return {.first = first,
          .last = first + each + (stage < left_over ? 1 : 0),
          .embedding = stage == 0,
          .head = stage == stages - 1};
}

}  // namespace lockstep
