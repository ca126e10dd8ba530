#include "core/plan/stage_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>

#include "core/base/error.h"

namespace lockstep {

namespace {

/// Throws UsageError unless every stage has a block and every block a stage.
void check_split(const GptConfig& config, int stages, const std::vector<int>& split) {
  const std::string given = fmt::format("--split {}", fmt::join(split, ","));
  const auto even = [&] {
    return fmt::format("use --split {}", fmt::join(even_split(config, stages), ","));
  };
  if (split.size() != static_cast<std::size_t>(stages))
    throw UsageError(fmt::format("{}: {} stages need {} numbers of blocks, not {}; {}", given,
                                 stages, stages, split.size(), even()));
  if (const auto without = std::ranges::find_if(split, [](int blocks) { return blocks < 1; });
      without != split.end())
    throw UsageError(fmt::format("{}: stage {} needs at least one block; {}", given,
                                 without - split.begin(), even()));
  if (const auto sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
      sum != config.layers)
    throw UsageError(
        fmt::format("{}: these are {} blocks, but --layers is {}; use --layers {}, or "
                    "{}",
                    given, sum, config.layers, sum, even().substr(4)));
}

}  // namespace

StageLayers StageLayers::whole(const GptConfig& config) {
  return {.first = 0, .last = config.layers, .embedding = true, .head = true};
}

std::vector<int> even_split(const GptConfig& config, int stages) {
  if (config.layers < stages) {
    throw UsageError{fmt::format(
        "--layers {}: {} pipeline stages need at least one layer each; use --layers {} or --pp {}",
        config.layers, stages, stages, config.layers)};
  }
  std::vector<int> split(static_cast<std::size_t>(stages), config.layers / stages);
  for (int stage = 0; stage < config.layers % stages; ++stage)
    ++split[static_cast<std::size_t>(stage)];
  return split;
}

StageLayers StageLayers::of(const GptConfig& config, int stage, int stages,
                            const std::vector<int>& split) {
  if (stages < 1 || stage < 0 || stage >= stages)
    throw std::invalid_argument{fmt::format("no stage {} in a pipeline of {}", stage, stages)};
  if (!split.empty()) check_split(config, stages, split);
  const std::vector<int> blocks = split.empty() ? even_split(config, stages) : split;
  const int first = std::accumulate(blocks.begin(), blocks.begin() + stage, 0);
  return {.first = first,
          .last = first + blocks[static_cast<std::size_t>(stage)],
          .embedding = stage == 0,
          .head = stage == stages - 1};
}

}  // namespace lockstep
