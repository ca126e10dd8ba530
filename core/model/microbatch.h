#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// The unit of work that passes through a model. Owns nothing; the views must stay valid until the
/// microbatch's backward pass is done.
struct Microbatch {
  View tokens;             ///< (b, s) i32
  View targets;            ///< (b, s) i32: the token after each position
  float token_weight = 1;  ///< of each token's loss: 1 / (tokens of the whole batch)
  bool last = false;       ///< last of its batch: its backward pass completes the gradients
  View positions{};        ///< (b, s) or (s) i32: the place of each token in its text, from 0
};

/// m microbatches of (b, s) tokens and targets, with their storage. Move-only.
struct Batch {
  Batch() = default;
  Batch(Batch&&) = default;
  Batch& operator=(Batch&&) = default;

  std::vector<std::int32_t> tokens;      ///< (m, b, s)
  std::vector<std::int32_t> targets;     ///< (m, b, s)
  std::vector<std::int32_t> positions;   ///< (m, b, s)
  std::vector<Microbatch> microbatches;  ///< views of the vectors or, on a GPU, of `copy`
  std::shared_ptr<void> copy;  ///< copy on the GPU; like the vectors, not charged to Memory
};

}  // namespace lockstep
