#pragma once

/// One instruction of kernels/cuda/ptx.cuh each, run by one warp on a GPU or its emulator.

#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace lockstep::testing {

using Words = std::vector<std::uint16_t>;

/// c (16, 8) + a (16, 16) b (16, 8) by one mma, the registers filled from memory element by element
/// as the PTX ISA manual's figures have them.
std::vector<float> mma(DType dtype, const Words& a, const Words& b, const std::vector<float>& c);

/// Four 8 x 8 matrices, one after the other, by one ldmatrix: four registers of lane 0, of
/// lane 1...
std::vector<std::uint32_t> ldmatrix(const Words& matrices, bool transposed);

}  // namespace lockstep::testing
