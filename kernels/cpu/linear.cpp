/// The linear layer: three matrix products, which are nearly all the arithmetic of a GPT.
///
/// With N rows each product is 2 N in out FLOPs and moves N (in + out) + in out elements. OpenBLAS
/// multiplies; strided views are its leading dimensions, so columns of a wider matrix cost nothing.

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/reduce.h"

namespace lockstep::cpu {
namespace {

struct Sizes {
  std::int64_t rows, in, out;
};

/// Checks the three matrices of one linear layer against each other. x stands for x or dx, y for y
/// or dy, w for w or dw.
Sizes sizes(const char* kernel, Named x, Named w, Named y, WeightLayout layout) {
  want_strided(kernel, {x, y});
  want_contiguous(kernel, {w});
  const Sizes n{x.view.shape.rows(), x.view.shape.last(), y.view.shape.last()};
  const bool in_out = layout == WeightLayout::in_out;
  const bool matrix = w.view.shape.rank() == 2;
  want(kernel, matrix && w.view.shape[in_out ? 0 : 1] == n.in, x, w,
       in_out ? "w must be (in, out), with as many rows as x has columns"
              : "w must be (out, in), with as many columns as x");
  want(kernel, matrix && w.view.shape[in_out ? 1 : 0] == n.out, y, w,
       in_out ? "w must be (in, out), with as many columns as y"
              : "w must be (out, in), with as many rows as y has columns");
  want(kernel, n.rows == y.view.shape.rows(), x, y, "both must have the same number of rows");
  return n;
}

void want_bias(const char* kernel, Named bias, Named y) {
  want_contiguous(kernel, {bias});
  want(kernel, bias.view.elements() == y.view.shape.last(), bias, y,
       "there must be one element for each column");
}

}  // namespace

void CpuKernels::linear_forward(Queue, View x, View w, View bias, View y,
                                WeightLayout layout) const {
  const Sizes n = sizes("linear_forward", {"x", x}, {"w", w}, {"y", y}, layout);
  // With the bias in y beforehand, the product adds to it: no second pass over y.
  if (bias) {
    want_bias("linear_forward", {"bias", bias}, {"y", y});
    for (std::int64_t r = 0; r < n.rows; ++r)
      std::copy_n(bias.f32(), n.out, y.f32() + r * y.row_stride);
  }
  gemm(n.rows, n.out, n.in, 1.0F, {x.f32(), x.row_stride},
       {w.f32(), w.row_stride, layout == WeightLayout::out_in}, bias ? 1.0F : 0.0F, y.f32(),
       y.row_stride);
}

void CpuKernels::linear_backward_input(Queue, View dy, View w, View dx, WeightLayout layout) const {
  const Sizes n = sizes("linear_backward_input", {"dx", dx}, {"w", w}, {"dy", dy}, layout);
  gemm(n.rows, n.in, n.out, 1.0F, {dy.f32(), dy.row_stride},
       {w.f32(), w.row_stride, layout == WeightLayout::in_out}, 0.0F, dx.f32(), dx.row_stride);
}

void CpuKernels::linear_backward_weight(Queue, View x, View dy, View dw, View db,
                                        WeightLayout layout) const {
  const Sizes n = sizes("linear_backward_weight", {"x", x}, {"dw", dw}, {"dy", dy}, layout);
  if (layout == WeightLayout::in_out)
    gemm(n.in, n.out, n.rows, 1.0F, {x.f32(), x.row_stride, true}, {dy.f32(), dy.row_stride}, 1.0F,
         dw.f32(), dw.row_stride);
  else
    gemm(n.out, n.in, n.rows, 1.0F, {dy.f32(), dy.row_stride, true}, {x.f32(), x.row_stride}, 1.0F,
         dw.f32(), dw.row_stride);
  if (db) {
    want_bias("linear_backward_weight", {"db", db}, {"dy", dy});
    const float* from = dy.f32();
    const std::int64_t stride = dy.row_stride;
    add_column_sums(
        n.rows, n.out, [=](std::int64_t r, std::int64_t c) { return from[r * stride + c]; },
        db.f32());
  }
}

}  // namespace lockstep::cpu
