#pragma once

#include <cstdint>

#include "core/plan/gpt_config.h"
#include "kernels/view.h"

namespace lockstep {

/// The tensor that one microbatch sends across a stage boundary: activations in the forward pass,
/// and gradients of the same shape and dtype in the backward pass. All boundaries of a pipeline
/// have the same shape and dtype.
struct Boundary {
  Shape shape;  ///< (b, s, h), or (b, s/n, h) if n ranks divide the tokens
  DType dtype = DType::f32;
  int token_parts = 1;  ///< n

  std::int64_t bytes() const {
    return static_cast<std::int64_t>(size_of(dtype)) * shape.elements();
  }
  bool operator==(const Boundary&) const = default;
};

/// Returns the boundary between two stages that split neither layers nor sequences, for
/// microbatches of `batch` sequences: (batch, s, h) in config.dtype.
inline Boundary stage_boundary(const GptConfig& config, int batch) {
  return {{batch, config.sequence, config.hidden}, config.dtype};
}

}  // namespace lockstep
