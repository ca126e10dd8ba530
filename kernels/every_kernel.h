#pragma once

/// Lists of the members of Kernels, for code that treats all kernels alike.

#include "kernels/kernels.h"

namespace lockstep {

/// The list of all kernels except fusions. Calls visit("add",
/// &Kernels::add), and does the same for every other kernel.
template <class Visit>
constexpr void for_each_kernel(Visit visit) {
  visit("linear_forward", &Kernels::linear_forward);
  visit("linear_backward_input", &Kernels::linear_backward_input);
  visit("linear_backward_weight", &Kernels::linear_backward_weight);
  visit("layernorm_forward", &Kernels::layernorm_forward);
  visit("layernorm_backward_input", &Kernels::layernorm_backward_input);
  visit("layernorm_backward_weight", &Kernels::layernorm_backward_weight);
  visit("rmsnorm_forward", &Kernels::rmsnorm_forward);
  visit("rmsnorm_backward_input", &Kernels::rmsnorm_backward_input);
  visit("rmsnorm_backward_weight", &Kernels::rmsnorm_backward_weight);
  visit("gelu_forward", &Kernels::gelu_forward);
  visit("gelu_backward", &Kernels::gelu_backward);
  visit("swiglu_forward", &Kernels::swiglu_forward);
  visit("swiglu_backward", &Kernels::swiglu_backward);
  visit("rotary", &Kernels::rotary);
  visit("attention_forward", &Kernels::attention_forward);
  visit("attention_backward", &Kernels::attention_backward);
  visit("attention_block_forward", &Kernels::attention_block_forward);
  visit("attention_merge", &Kernels::attention_merge);
  visit("attention_block_backward", &Kernels::attention_block_backward);
  visit("embedding_forward", &Kernels::embedding_forward);
  visit("embedding_backward", &Kernels::embedding_backward);
  visit("embedding_part_forward", &Kernels::embedding_part_forward);
  visit("embedding_part_backward", &Kernels::embedding_part_backward);
  visit("cross_entropy_forward", &Kernels::cross_entropy_forward);
  visit("cross_entropy_backward", &Kernels::cross_entropy_backward);
  visit("cross_entropy_part_forward", &Kernels::cross_entropy_part_forward);
  visit("cross_entropy_merge", &Kernels::cross_entropy_merge);
  visit("cross_entropy_part_backward", &Kernels::cross_entropy_part_backward);
  visit("router_forward", &Kernels::router_forward);
  visit("router_backward", &Kernels::router_backward);
  visit("gather_rows", &Kernels::gather_rows);
  visit("combine_rows", &Kernels::combine_rows);
  visit("combine_rows_backward", &Kernels::combine_rows_backward);
  visit("add", &Kernels::add);
  visit("scale", &Kernels::scale);
  visit("fill", &Kernels::fill);
  visit("copy", &Kernels::copy);
  visit("convert", &Kernels::convert);
  visit("adamw", &Kernels::adamw);
  visit("sums", &Kernels::sums);
  visit("sums_of_squares", &Kernels::sums_of_squares);
  visit("counts_of_not_finite", &Kernels::counts_of_not_finite);
}

/// The list of all fusions. Each does the work of two kernels in one launch, with less memory
/// traffic and bitwise identical results. If a device gains nothing from a fusion, the fusion is
/// null.
template <class Visit>
constexpr void for_each_fusion(Visit visit) {
  visit("add_layernorm_forward", &Kernels::add_layernorm_forward);
  visit("layernorm_backward_input_add", &Kernels::layernorm_backward_input_add);
}

}  // namespace lockstep
