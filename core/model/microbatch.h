#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// The unit that travels through a model. Owns nothing; tokens and targets must stay until the
/// microbatch's backward is done.
struct Microbatch {
  View tokens;           ///< (b, s) i32
  View targets;          ///< (b, s) i32: the token that follows each
  float loss_scale = 1;  ///< 1 / (tokens of the whole batch)
  bool last = false;     ///< of its batch: after its backward the gradients are complete
};

/// m microbatches of (b, s) tokens and targets, owned. Move-only.
struct Batch {
  Batch() = default;
  Batch(Batch&&) = default;
  Batch& operator=(Batch&&) = default;

  std::vector<std::int32_t> tokens;      ///< (m, b, s)
  std::vector<std::int32_t> targets;     ///< (m, b, s)
  std::vector<Microbatch> microbatches;  ///< of these; or, on a GPU, of the copy there
  std::shared_ptr<void> copy;            ///< on the GPU; in no account, as the vectors are not
};

}  // namespace lockstep
