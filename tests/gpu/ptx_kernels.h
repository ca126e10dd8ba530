#pragma once

/// Single instructions of kernels/cuda/ptx.cuh, each run by one warp on a GPU or its emulator.

#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace lockstep::testing {

using Words = std::vector<std::uint16_t>;

/// Returns c (16, 8) + a (16, 16) b (16, 8), computed by one mma. The instruction's registers are
/// filled from memory element by element, as in the PTX ISA manual's figures.
std::vector<float> mma(DType dtype, const Words& a, const Words& b, const std::vector<float>& c);

/// Loads four consecutive 8 x 8 matrices with one ldmatrix. Returns four registers of lane 0, then
/// of lane 1, and so on.
std::vector<std::uint32_t> ldmatrix(const Words& matrices, bool transposed);

}  // namespace lockstep::testing
