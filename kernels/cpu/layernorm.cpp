/// Layer normalisation, row by row.
///
/// A row of h elements fits the first-level cache, so its two or three passes read memory once:
/// forward moves 2 N h elements (x in, y out), backward_input 3 N h, backward_weight 2 N h. The
/// variance is taken about the mean (a second pass), because E[x²] - E[x]² cancels.

#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"

namespace lockstep::cpu {
namespace {

constexpr float epsilon = 1e-5F;

void want_rows(const char* kernel, Named per_row, Named x) {
  want_contiguous(kernel, {per_row});
  want(kernel, per_row.view.elements() == x.view.shape.rows(), per_row, x,
       "there must be one element for each row");
}

void want_columns(const char* kernel, Named per_column, Named x) {
  want_contiguous(kernel, {per_column});
  want(kernel, per_column.view.elements() == x.view.shape.last(), per_column, x,
       "there must be one element for each column");
}

}  // namespace

void CpuKernels::layernorm_forward(Queue, View x, View gain, View bias, View y, View mean,
                                   View rstd) const {
  constexpr const char* kernel = "layernorm_forward";
  want_contiguous(kernel, {{"x", x}, {"y", y}});
  want_same_rows(kernel, {"y", y}, {"x", x});
  want_columns(kernel, {"gain", gain}, {"x", x});
  want_columns(kernel, {"bias", bias}, {"x", x});
  want_rows(kernel, {"mean", mean}, {"x", x});
  want_rows(kernel, {"rstd", rstd}, {"x", x});

  const std::int64_t h = x.shape.last();
  const float* const g = gain.f32();
  const float* const b = bias.f32();
  for (std::int64_t row = 0; row < x.shape.rows(); ++row) {
    const float* const in = x.f32() + row * h;
    float* const out = y.f32() + row * h;
    const float mu = lane_sum(h, [=](std::int64_t i) { return in[i]; }) / static_cast<float>(h);
    const float variance =
        lane_sum(h, [=](std::int64_t i) { return (in[i] - mu) * (in[i] - mu); }) /
        static_cast<float>(h);
    const float r = 1.0F / std::sqrt(variance + epsilon);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < h; ++i) out[i] = (in[i] - mu) * r * g[i] + b[i];
    mean.f32()[row] = mu;
    rstd.f32()[row] = r;
  }
}

void CpuKernels::layernorm_backward_input(Queue, View dy, View x, View gain, View mean, View rstd,
                                          View dx) const {
  constexpr const char* kernel = "layernorm_backward_input";
  want_contiguous(kernel, {{"dy", dy}, {"x", x}, {"dx", dx}});
  want_same_rows(kernel, {"dy", dy}, {"x", x});
  want_same_rows(kernel, {"dx", dx}, {"x", x});
  want_columns(kernel, {"gain", gain}, {"x", x});
  want_rows(kernel, {"mean", mean}, {"x", x});
  want_rows(kernel, {"rstd", rstd}, {"x", x});

  // With x̂ = (x - mean) rstd and d = dy gain:  dx = rstd (d - mean(d) - x̂ mean(d x̂)).
  const std::int64_t h = x.shape.last();
  const float* const g = gain.f32();
  for (std::int64_t row = 0; row < x.shape.rows(); ++row) {
    const float* const in = x.f32() + row * h;
    const float* const up = dy.f32() + row * h;
    float* const out = dx.f32() + row * h;
    const float mu = mean.f32()[row];
    const float r = rstd.f32()[row];
    const float mean_d =
        lane_sum(h, [=](std::int64_t i) { return up[i] * g[i]; }) / static_cast<float>(h);
    const float mean_dx =
        lane_sum(h, [=](std::int64_t i) { return up[i] * g[i] * ((in[i] - mu) * r); }) /
        static_cast<float>(h);
#pragma GCC ivdep  // dx may be dy: each element is read before it is written
    for (std::int64_t i = 0; i < h; ++i)
      out[i] = r * (up[i] * g[i] - mean_d - (in[i] - mu) * r * mean_dx);
  }
}

void CpuKernels::layernorm_backward_weight(Queue, View dy, View x, View mean, View rstd, View dgain,
                                           View dbias) const {
  constexpr const char* kernel = "layernorm_backward_weight";
  want_contiguous(kernel, {{"dy", dy}, {"x", x}});
  want_same_rows(kernel, {"dy", dy}, {"x", x});
  want_columns(kernel, {"dgain", dgain}, {"x", x});
  want_columns(kernel, {"dbias", dbias}, {"x", x});
  want_rows(kernel, {"mean", mean}, {"x", x});
  want_rows(kernel, {"rstd", rstd}, {"x", x});

  const std::int64_t h = x.shape.last();
  const float* const in = x.f32();
  const float* const up = dy.f32();
  const float* const mu = mean.f32();
  const float* const r = rstd.f32();
  add_column_sums(
      x.shape.rows(), h,
      [=](std::int64_t row, std::int64_t i) {
        return up[row * h + i] * ((in[row * h + i] - mu[row]) * r[row]);
      },
      dgain.f32());
  add_column_sums(
      x.shape.rows(), h, [=](std::int64_t row, std::int64_t i) { return up[row * h + i]; },
      dbias.f32());
}

}  // namespace lockstep::cpu
