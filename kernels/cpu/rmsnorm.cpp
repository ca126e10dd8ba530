/// Root mean square normalisation: layer normalisation (layernorm.cpp) without the mean and the
/// bias. The kernels read and write the same elements as those of layer normalisation.

#include <cmath>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"

namespace lockstep::cpu {
namespace {

void rmsnorm_forward(Queue, In x, In gain, float epsilon, Out y, Out32 rstd) {
  const std::int64_t h = arguments::rmsnorm_forward(x, gain, y, rstd).columns;
  const float* const g = gain.f32();
  for (std::int64_t row = 0; row < x.shape.rows(); ++row) {
    const float* const in = x.f32() + row * h;
    float* const out = y.f32() + row * h;
    const float mean_square =
        lane_sum(h, [=](std::int64_t i) { return in[i] * in[i]; }) / static_cast<float>(h);
    const float r = 1.0F / std::sqrt(mean_square + epsilon);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < h; ++i) out[i] = in[i] * r * g[i];
    rstd.f32()[row] = r;
  }
}

void rmsnorm_backward_input(Queue, In dy, In x, In gain, In32 rstd, Out dx) {
  // With x̂ = x rstd and d = dy gain:  dx = rstd (d - x̂ mean(d x̂)).
  const std::int64_t h = arguments::rmsnorm_backward_input(dy, x, gain, rstd, dx).columns;
  const float* const g = gain.f32();
  for (std::int64_t row = 0; row < x.shape.rows(); ++row) {
    const float* const in = x.f32() + row * h;
    const float* const up = dy.f32() + row * h;
    float* const out = dx.f32() + row * h;
    const float r = rstd.f32()[row];
    const float mean_dx = lane_sum(h, [=](std::int64_t i) { return up[i] * g[i] * (in[i] * r); }) /
                          static_cast<float>(h);
#pragma GCC ivdep  // dx may be dy: each element is read before it is overwritten
    for (std::int64_t i = 0; i < h; ++i) out[i] = r * (up[i] * g[i] - in[i] * r * mean_dx);
  }
}

void rmsnorm_backward_weight(Queue, In dy, In x, In32 rstd, InOut dgain) {
  const std::int64_t h = arguments::rmsnorm_backward_weight(dy, x, rstd, dgain).columns;
  const float* const in = x.f32();
  const float* const up = dy.f32();
  const float* const r = rstd.f32();
  add_column_sums(
      x.shape.rows(), h,
      [=](std::int64_t row, std::int64_t i) {
        return up[row * h + i] * (in[row * h + i] * r[row]);
      },
      dgain.f32());
}

}  // namespace

void set_rmsnorm(Kernels& kernels) {
  kernels.rmsnorm_forward = rmsnorm_forward;
  kernels.rmsnorm_backward_input = rmsnorm_backward_input;
  kernels.rmsnorm_backward_weight = rmsnorm_backward_weight;
}

}  // namespace lockstep::cpu
