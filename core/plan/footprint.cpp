#include "core/plan/footprint.h"

#include <algorithm>

namespace lockstep {

Footprint::Footprint(const GptConfig& config, const StageLayers& stage, int batch) {
  constexpr std::int64_t f32 = 4;
  const auto width = static_cast<std::int64_t>(size_of(config.dtype));
  const std::int64_t N = static_cast<std::int64_t>(batch) * config.sequence;
  const std::int64_t h = config.hidden, a = config.heads, V = config.vocabulary;
  const std::int64_t norm = config.norm_vectors();
  const std::int64_t blocks = stage.count();

  boundary = width * N * h;
  block = width * N * config.saved_per_block() + f32 * (2 * norm + a) * N;
  head = stage.head ? width * (2 * N * h + N * V) + f32 * (norm + 2) * N : 0;
  stash = blocks * block + head;

  forward_working = stage.head ? 0 : boundary;
  const std::int64_t mlp = width * N * config.mlp_width();
  const std::int64_t inner = width * N * config.mlp_inner_width();
  block_working = std::max({boundary + mlp, 2 * boundary - mlp,
                            width * N * config.qkv_width() - mlp - inner - f32 * norm * N});
  backward_working = block_working - head;
  if (stage.head)
    backward_working = std::max({std::int64_t{0}, boundary - f32 * 2 * N, backward_working});

  const auto count = [&](int unit, std::int64_t elements) {
    parameters += width * elements;
    if (!config.is_frozen(unit)) gradients += width * elements;
  };
  const bool tied_here = config.tied && stage.embedding && stage.head;
  if (stage.embedding) count(0, (V + (config.llama ? 0 : config.sequence)) * h);
  const auto matrices = static_cast<std::int64_t>(config.matrix_elements_per_block());
  for (int layer = stage.first; layer < stage.last; ++layer)
    count(layer + 1, matrices + (config.llama ? 2 : 13) * h);
  if (stage.head) {
    count(config.layers + 1, norm * h);
    // If the embedding is on another stage, a tied head has its own copy of the table.
    if (!tied_here) count(config.tied ? 0 : config.layers + 1, V * h);
  }
  optimizer = (is_narrow(config.dtype) ? 3 : 2) * f32 * (gradients / width);
  if (tied_here && !config.is_frozen(0)) gradients += width * V * h;
}

std::int64_t Footprint::peak(int held) const {
  return held * stash + std::max(forward_working, backward_working);
}

}  // namespace lockstep
