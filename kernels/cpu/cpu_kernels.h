#pragma once

#include "kernels/kernels.h"

namespace lockstep::cpu {

/// f32 kernels for one CPU core; narrow.cpp adds bf16 and f16 by converting around them. Kernels
/// run synchronously on the calling thread, and any number of rank threads may call them
/// concurrently. Each .cpp file in this folder implements one family.
class CpuKernels final : public Kernels {
 public:
  /// Sets OpenBLAS to one thread for the whole process: the ranks provide the parallelism.
  CpuKernels();

  // linear.cpp
  void linear_forward(Queue, View x, View w, View bias, View y, WeightLayout) const override;
  void linear_backward_input(Queue, View dy, View w, View dx, WeightLayout) const override;
  void linear_backward_weight(Queue, View x, View dy, View dw, View db,
                              WeightLayout) const override;

  // layernorm.cpp
  void layernorm_forward(Queue, View x, View gain, View bias, View y, View mean,
                         View rstd) const override;
  void layernorm_backward_input(Queue, View dy, View x, View gain, View mean, View rstd,
                                View dx) const override;
  void layernorm_backward_weight(Queue, View dy, View x, View mean, View rstd, View dgain,
                                 View dbias) const override;

  // attention.cpp
  void attention_forward(Queue, View q, View k, View v, int heads, View y, View lse,
                         View probabilities) const override;
  void attention_backward(Queue, View dy, View q, View k, View v, View y, View lse,
                          View probabilities, int heads, View dq, View dk, View dv) const override;

  // embedding.cpp
  void embedding_forward(Queue, View tokens, View tokens_table, View positions_table,
                         View x) const override;
  void embedding_backward(Queue, View tokens, View dx, View dtokens_table,
                          View dpositions_table) const override;

  // cross_entropy.cpp
  void cross_entropy_forward(Queue, View logits, View targets, View losses,
                             View lse) const override;
  void cross_entropy_backward(Queue, View logits, View targets, View lse, float scale,
                              View dlogits) const override;

  // elementwise.cpp
  void gelu_forward(Queue, View x, View y) const override;
  void gelu_backward(Queue, View x, View dy, View dx) const override;
  void add(Queue, View a, View b, View y) const override;
  void scale(Queue, View x, float factor) const override;
  void fill(Queue, View x, float value) const override;
  void copy(Queue, View from, View to) const override;
  void convert(Queue, View from, View to) const override;

  // optimizer.cpp
  void adamw(Queue, View parameter, View gradient, View momentum, View variance,
             const AdamWStep&) const override;
  double sum_of_squares(Queue, View x) const override;
  bool finite(Queue, View x) const override;
  double sum(Queue, View x) const override;
};

}  // namespace lockstep::cpu
