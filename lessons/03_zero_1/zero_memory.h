#pragma once

#include <cstdint>

namespace lockstep {

/// What training with Adam keeps for each parameter, in bytes.
struct StateBytes {
  int value = 4;
  int gradient = 4;
  int optimizer =
      8;  ///< momentum and variance, and a master copy of the value where that is narrow
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
/// and figure 1): stage 0, plain data parallelism, keeps all of them on every rank; stage 1 shards
/// the optimizer's, stage 2 the gradients too, stage 3 the parameters too. In mixed precision
/// 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N. Buffers that come and go are not in it.
constexpr ModelStates zero_states(int stage, std::int64_t parameters, std::int64_t ranks,
                                  StateBytes each = f32_states) {
  const std::int64_t shard = (parameters + ranks - 1) / ranks;
  return {.parameters = each.value * (stage >= 3 ? shard : parameters),
          .gradients = each.gradient * (stage >= 2 ? shard : parameters),
          .optimizer = each.optimizer * (stage >= 1 ? shard : parameters)};
}

}  // namespace lockstep
