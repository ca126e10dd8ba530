#pragma once

#include <array>
#include <optional>

#include "kernels/cuda/matrix_product.h"

namespace lockstep::cuda {

/// Divides a product into two that together are faster, to be computed in this order. Returns
/// nothing if the product is fastest as it is.
///
/// If a matrix's rows are not a whole number of 16-byte words, as with 50257 logits, cuBLASLt's
/// fast kernels do not take it, even if a gap after each row aligns the next one: on an H200, the
/// product with 50257 columns then ran at a ninth of the rate of that with 50304. So all but the
/// last few rows, columns or terms are one product, and those few another.
std::optional<std::array<MatrixProduct, 2>> in_two(const MatrixProduct& product);

}  // namespace lockstep::cuda
