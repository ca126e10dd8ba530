/// The linear layer: three matrix products, which account for nearly all of a GPT's arithmetic.
///
/// With N rows, each product takes 2 N in out FLOPs and moves N (in + out) + in out elements.
/// gemm.h names the library that computes the products.

#include <algorithm>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/reduce.h"

namespace lockstep::cpu {
namespace {

void linear_forward(Queue, In x, In w, In bias, Out y, WeightLayout layout) {
  const auto n = arguments::linear_forward(x, w, bias, y, layout);
  // Copies the bias to y first, so that the product adds to it without a second pass over y.
  if (bias) {
    for (std::int64_t r = 0; r < n.rows; ++r)
      std::copy_n(bias.f32(), n.out, y.f32() + r * y.row_stride);
  }
  gemm({n.rows, n.out, n.in}, 1.0F, {x.f32(), x.row_stride},
       {w.f32(), w.row_stride, layout == WeightLayout::out_in}, bias ? 1.0F : 0.0F, y.f32(),
       y.row_stride);
}

void linear_backward_input(Queue, In dy, In w, Out dx, WeightLayout layout) {
  const auto n = arguments::linear_backward_input(dy, w, dx, layout);
  gemm({n.rows, n.in, n.out}, 1.0F, {dy.f32(), dy.row_stride},
       {w.f32(), w.row_stride, layout == WeightLayout::in_out}, 0.0F, dx.f32(), dx.row_stride);
}

void linear_backward_weight(Queue, In x, In dy, InOut dw, InOut db, WeightLayout layout) {
  const auto n = arguments::linear_backward_weight(x, dy, dw, db, layout);
  if (layout == WeightLayout::in_out)
    gemm({n.in, n.out, n.rows}, 1.0F, {x.f32(), x.row_stride, true}, {dy.f32(), dy.row_stride},
         1.0F, dw.f32(), dw.row_stride);
  else
    gemm({n.out, n.in, n.rows}, 1.0F, {dy.f32(), dy.row_stride, true}, {x.f32(), x.row_stride},
         1.0F, dw.f32(), dw.row_stride);
  if (db) {
    const float* from = dy.f32();
    const std::int64_t stride = dy.row_stride;
    add_column_sums(
        n.rows, n.out, [=](std::int64_t r, std::int64_t c) { return from[r * stride + c]; },
        db.f32());
  }
}

}  // namespace

void set_linear(Kernels& kernels) {
  kernels.linear_forward = linear_forward;
  kernels.linear_backward_input = linear_backward_input;
  kernels.linear_backward_weight = linear_backward_weight;
}

}  // namespace lockstep::cpu
