#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "tests/gpu/attention_calls.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/variants/attention_hopper.h"
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
