/// Layer normalisation, row by row.
///
/// A row of h elements fits in the L1 cache, so a kernel that makes two or three passes over the
/// row reads memory only once: the forward kernel moves 2 N h elements (x in, y out),
/// backward_input 3 N h, backward_weight 2 N h. A second pass computes the variance around the
/// mean, because E[x²] - E[x]² would lose digits to cancellation.

#include <cmath>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"

namespace lockstep::cpu {
namespace {

constexpr float epsilon = 1e-5F;

void layernorm_forward(Queue, In x, In gain, In bias, Out y, Out32 mean, Out32 rstd) {
  const std::int64_t h = arguments::layernorm_forward(x, gain, bias, y, mean, rstd).columns;
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

void layernorm_backward_input(Queue, In dy, In x, In gain, In32 mean, In32 rstd, Out dx) {
  // With x̂ = (x - mean) rstd and d = dy gain:  dx = rstd (d - mean(d) - x̂ mean(d x̂)).
  const std::int64_t h = arguments::layernorm_backward_input(dy, x, gain, mean, rstd, dx).columns;
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
#pragma GCC ivdep  // dx may be dy: each element is read before it is overwritten
    for (std::int64_t i = 0; i < h; ++i)
      out[i] = r * (up[i] * g[i] - mean_d - (in[i] - mu) * r * mean_dx);
  }
}

void layernorm_backward_weight(Queue, In dy, In x, In32 mean, In32 rstd, InOut dgain, InOut dbias) {
  const std::int64_t h =
      arguments::layernorm_backward_weight(dy, x, mean, rstd, dgain, dbias).columns;
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

}  // namespace

void set_layernorm(Kernels& kernels) {
  kernels.layernorm_forward = layernorm_forward;
  kernels.layernorm_backward_input = layernorm_backward_input;
  kernels.layernorm_backward_weight = layernorm_backward_weight;
}

}  // namespace lockstep::cpu
