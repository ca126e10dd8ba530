#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "tests/gpu/attention_calls.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/variants/attention_hopper.h"
#include "tests/gpu/variants/layernorm_rows.h"
#include "tests/gpu/variants/measure.h"
#include "tests/kernels/support.h"

// The variants that wait for hardware (README.md), compared with the oracle: on the emulator, and
// on a GPU before they are measured.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Runs a variant on the inputs of `t`, and returns the largest error of any result.
double attention_error(Attention& t, bool causal, int groups) {
  Kernels variant = make_cuda_kernels();
  cuda::hopper::use_attention(variant, causal, groups);
  const Kernels kernels = on_device(variant);
  kernels.attention_forward({}, t.q.view(), t.k.view(), t.v.view(), t.heads(), t.y.view(), t.lse,
                            {});
  kernels.attention_backward({}, t.dy.view(), t.q.view(), t.k.view(), t.v.view(), t.y.view(),
                             t.lse.view(), {}, t.heads(), t.dq.view(), t.dk.view(), t.dv.view());
  if (causal) return largest_error(t);
  const oracle::Visible all = oracle::unmasked(t.n);
  const Doubles q = t.q.doubles(), k = t.k.doubles(), v = t.v.doubles();
  const auto want = oracle::attention(q, k, v, t.n, all);
  const auto gradients = oracle::attention_backward(q, k, v, t.dy.doubles(), t.n, all);
  double worst =
      std::max({error(t.y, want.y), testing::error(t.lse, want.lse), error(t.dv, gradients.dv)});
  if (t.n.s > 1) worst = std::max({worst, error(t.dq, gradients.dq), error(t.dk, gradients.dk)});
  return worst;
}

/// ‖a − b‖₂ / ‖b‖₂
double difference(const Doubles& a, const Doubles& b) {
  double squares = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::isnan(squares) ? infinity : std::sqrt(squares / norm);
}

}  // namespace

TEST_CASE("attention for Hopper follows the oracle: causal and not, grouped heads, any rows") {
  Random random{110};
  double worst = 0.0;
  for (const std::size_t d : {64U, 128U, 40U, 5U})
    for (const std::size_t s : {1U, 63U, 64U, 65U, 129U, 200U}) {
      const bool odd_rows = d == 5 || s == 129;
      for (const bool causal : {true, false}) {
        const int groups = random.between(0, 1) == 0 ? 2 : 3;
        const std::size_t heads = s % 2 == 0 ? 3 : 2;
        Attention t{{.b = 1, .s = s, .h = heads * d, .heads = heads, .groups = s == 65 ? heads : 1},
                    DType::bf16,
                    random,
                    odd_rows ? 3 : 8,
                    odd_rows ? 1 : 0};
        const std::string what = named(t) + (causal ? ", causal" : ", not causal") +
                                 (odd_rows ? ", odd rows" : ", whole rows") + ", warpgroups " +
                                 std::to_string(groups);
        CAPTURE(what);
        const double error = attention_error(t, causal, groups);
        CHECK(error < allowed(t));
        if (s >= 8) worst = std::max(worst, error);
      }
    }
  MESSAGE("largest error in norm: " << worst);
}

TEST_CASE("LayerNorm in one pass follows the oracle, with the bits of the kernels in use") {
  using variants::Arrays, variants::values_of;
  const Kernels in_use = make_cuda_kernels();
  Random random{111};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t h : {5, 64, 300, 512, 768, 1023})
      for (const std::int64_t rows : {1, 7, 130}) {
        if (h > cuda::widest_row(dtype)) continue;
        CAPTURE(name_of(dtype));
        CAPTURE(h);
        CAPTURE(rows);
        Arrays gpu;
        const View x = gpu.random({rows, h}, dtype), dy = gpu.random({rows, h}, dtype);
        const View other = gpu.random({rows, h}, dtype), gain = gpu.random({h}, dtype);
        const View bias = gpu.random({h}, dtype), dgain = gpu.random({h}, dtype);
        const View dbias = gpu.random({h}, dtype), y = gpu.zeros({rows, h}, dtype);
        const View mean = gpu.zeros({rows}, DType::f32), rstd = gpu.zeros({rows}, DType::f32);
        const View dx = gpu.zeros({rows, h}, dtype), want_dx = gpu.zeros({rows, h}, dtype);

        in_use.layernorm_forward({}, x, gain, bias, y, mean, rstd);
        const Doubles want_y = values_of(y), want_mean = values_of(mean);
        cuda::layernorm_forward_four_rows({}, x, gain, bias, y, mean, rstd);
        CHECK(values_of(y) == want_y);
        CHECK(values_of(mean) == want_mean);

        const Doubles gains = values_of(dgain), biases = values_of(dbias);
        const auto want = oracle::layernorm_backward(values_of(x), values_of(gain), values_of(dy),
                                                     size(rows), size(h));
        for (const bool adds : {false, true}) {
          CAPTURE(adds);
          const View dgain_now = gpu.of(gains, {h}, dtype), dbias_now = gpu.of(biases, {h}, dtype);
          if (adds)
            in_use.layernorm_backward_input_add({}, dy, x, gain, mean, rstd, other, want_dx);
          else
            in_use.layernorm_backward_input({}, dy, x, gain, mean, rstd, want_dx);
          cuda::layernorm_backward_one_pass({}, dy, x, gain, mean, rstd, adds ? other : View{}, dx,
                                            dgain_now, dbias_now);
          CHECK(values_of(dx) == values_of(want_dx));
          const double bound = dtype == DType::f32 ? tolerance : 4e-3;
          CHECK(difference(values_of(dgain_now), plus(gains, want.dgain)) < bound);
          CHECK(difference(values_of(dbias_now), plus(biases, want.dbias)) < bound);
        }
      }
}
