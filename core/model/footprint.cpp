#include "core/model/footprint.h"

#include <algorithm>

namespace lockstep {

Footprint::Footprint(const GptConfig& config, const StageLayers& stage, int batch) {
  constexpr std::int64_t f32 = 4;
  const std::int64_t N = static_cast<std::int64_t>(batch) * config.sequence;
  const std::int64_t h = config.hidden, a = config.heads, V = config.vocabulary;
  const std::int64_t blocks = stage.count();
  const std::int64_t head = stage.head ? 2 * N * h + N * V + 4 * N : 0;

  boundary = f32 * N * h;
  stash = f32 * (blocks * (16 * N * h + (4 + a) * N) + head);
  pending = f32 * (blocks * 16 * N * h + (stage.head ? N * h + N * V : 0) +
                   (stage.embedding ? N * h : 0));

  forward_working = stage.head ? 0 : boundary;
  if (stage.head) {
    backward_working = f32 * std::max({std::int64_t{0}, N * h - 2 * N, 5 * N * h - head});
    backward_input_working = f32 * (4 * N * h - 4 * N);
  } else {
    backward_working = backward_input_working = f32 * 5 * N * h;
  }

  std::int64_t elements = blocks * (12 * h * h + 13 * h);
  if (stage.embedding) elements += (V + config.sequence) * h;
  const bool tied_here = config.tied && stage.embedding && stage.head;
  if (stage.head) elements += 2 * h + (tied_here ? 0 : V * h);
  parameters = f32 * elements;
  gradients = parameters + (tied_here ? f32 * V * h : 0);
  optimizer = 2 * parameters;
}

std::int64_t Footprint::peak(int held) const {
  return held * stash + std::max(forward_working, backward_working);
}

}  // namespace lockstep
