#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes of model states per parameter when training with Adam.
struct StateBytes {
  int value = 4;
  int gradient = 4;
  int optimizer = 8;  ///< momentum, variance and, for a 16-bit value, its f32 master copy
};
constexpr StateBytes f32_states{4, 4, 8};
constexpr StateBytes mixed_states{2, 2, 12};

struct ModelStates {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t total() const { return parameters + gradients + optimizer; }
};

/// Bytes of model states on each of N ranks that train Ψ parameters (Rajbhandari 2020, section 3
/// and figure 1). Stage 0, plain data parallelism, keeps all states on every rank; stage 1 shards
/// the optimizer states, stage 2 also the gradients, stage 3 also the parameters. In mixed
/// precision the four stages need 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N and 16Ψ/N. Temporary buffers are not
/// included.
constexpr ModelStates zero_states(int stage, std::int64_t parameters, std::int64_t ranks,
                                  StateBytes each = f32_states) {
  const std::int64_t shard = (parameters + ranks - 1) / ranks;
  return {.parameters = each.value * (stage >= 3 ? shard : parameters),
          .gradients = each.gradient * (stage >= 2 ? shard : parameters),
          .optimizer = each.optimizer * (stage >= 1 ? shard : parameters)};
}

}  // namespace lockstep
