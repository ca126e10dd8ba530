#pragma once

/// The matrix products of a training step, without the rest of the step.

#include <cstdint>
#include <vector>

#include "core/model/gpt.h"

namespace lockstep::bench {

/// Returns the FLOPs of a step's matrix products. Every linear layer has three products (one in the
/// forward pass; in the backward pass, one for the input and one for the weight). Attention has six
/// (two in the forward pass and four in the backward pass, not counting the recomputed scores).
/// Each product takes 2 m n k FLOPs; those of attention count half, because the scores above the
/// diagonal are not needed.
double product_flops(const GptConfig& config, int batch);

/// Computes the products of the linear layers with the CPU kernels, on separate data.
class LinearProducts {
 public:
  LinearProducts(const GptConfig& config, int batch);

  double flops() const { return flops_; }
  void multiply();

 private:
  struct Layer {
    std::int64_t in, out;
    WeightLayout layout;
  };
  View view(std::vector<std::byte>& memory, Shape shape) const;

  std::vector<Layer> layers_;
  std::int64_t rows_;
  DType dtype_;
  double flops_ = 0;
  std::vector<std::byte> x_, w_, y_;
};

}  // namespace lockstep::bench
