#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace lockstep {

/// What one microbatch sends over a boundary between two pipeline stages: an activation, or its
/// gradient on the way back.
struct Boundary {
  Shape shape;
  DType dtype = DType::f32;

  std::int64_t bytes() const {
    return shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  }
  bool operator==(const Boundary&) const = default;
};

}  // namespace lockstep
