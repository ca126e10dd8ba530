#pragma once

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// The widest row, in elements of a type: a warp keeps it in registers.
constexpr std::int64_t widest_row(DType dtype) {
  return 4 * 32 * 16 / static_cast<std::int64_t>(size_of(dtype));
}

/// Kernels::layernorm_forward with four rows per block and one warp per row, for rows of at most
/// widest_row elements. The results are bitwise identical to those of the kernel in use.
void layernorm_forward_four_rows(Queue, In x, In gain, In bias, Out y, Out32 mean, Out32 rstd);

/// layernorm_backward_input and layernorm_backward_weight in one pass over dy and x; if `other` is
/// not empty, then dx += other. For rows of at most widest_row elements. dx is bitwise identical to
/// that of the kernel in use.
void layernorm_backward_one_pass(Queue, In dy, In x, In gain, In32 mean, In32 rstd, In other,
                                 Out dx, InOut dgain, InOut dbias);

}  // namespace lockstep::cuda
