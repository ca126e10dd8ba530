#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace lockstep::cuda {

class MatrixProducts;

/// The implementation behind make_cuda_kernels. Each family of kernels has its own file. Views lie
/// in GPU memory and need only their element type's alignment.
class DeviceKernels final : public Kernels {
 public:
  explicit DeviceKernels(bool allow_tf32);
  ~DeviceKernels() override;

  // linear.cu
  void linear_forward(Queue, View x, View w, View bias, View y, WeightLayout) const override;
  void linear_backward_input(Queue, View dy, View w, View dx, WeightLayout) const override;
  void linear_backward_weight(Queue, View x, View dy, View dw, View db,
                              WeightLayout) const override;

  // layernorm.cu
  void layernorm_forward(Queue, View x, View gain, View bias, View y, View mean,
                         View rstd) const override;
  void layernorm_backward_input(Queue, View dy, View x, View gain, View mean, View rstd,
                                View dx) const override;
  void layernorm_backward_weight(Queue, View dy, View x, View mean, View rstd, View dgain,
                                 View dbias) const override;

  // gelu.cu
  void gelu_forward(Queue, View x, View y) const override;
  void gelu_backward(Queue, View x, View dy, View dx) const override;

  // attention.h
  void attention_forward(Queue, View q, View k, View v, int heads, View y, View lse,
                         View probabilities) const override;
  void attention_backward(Queue, View dy, View q, View k, View v, View y, View lse,
                          View probabilities, int heads, View dq, View dk, View dv) const override;

  // embedding.cu
  void embedding_forward(Queue, View tokens, View tokens_table, View positions_table,
                         View x) const override;
  void embedding_backward(Queue, View tokens, View dx, View dtokens_table,
                          View dpositions_table) const override;

  // cross_entropy.cu
  void cross_entropy_forward(Queue, View logits, View targets, View losses,
                             View lse) const override;
  void cross_entropy_backward(Queue, View logits, View targets, View lse, float scale,
                              View dlogits) const override;

  // elementwise.cu
  void add(Queue, View a, View b, View y) const override;
  void scale(Queue, View x, float factor) const override;
  void fill(Queue, View x, float value) const override;
  void copy(Queue, View from, View to) const override;
  void convert(Queue, View from, View to) const override;

  // optimizer.cu
  void adamw(Queue, View parameter, View gradient, View momentum, View variance,
             const AdamWStep&) const override;

  // reductions.cu
  double sum_of_squares(Queue, View x) const override;
  bool finite(Queue, View x) const override;
  double sum(Queue, View x) const override;

 private:
  std::unique_ptr<MatrixProducts> products_;
};

}  // namespace lockstep::cuda
