#include <doctest/doctest.h>

#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "tests/gpu/on_device.h"
#include "tests/kernels/support.h"

// The steps of kernels/cuda/ladder: slower than the kernels that Lockstep uses, but equally
// correct.

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("each step of the ladder of layernorm_forward follows the oracle") {
  for (const cuda::LayerNormStep& step : cuda::layernorm_ladder()) {
    CAPTURE(step.name);
    Kernels with_step = make_cuda_kernels();
    with_step.layernorm_forward = step.forward;
    const Kernels kernels = on_device(with_step);
    Random random{93};
    for (const std::int64_t h : {1, 31, 32, 33, 255, 256, 257, 768, 1000})
      for (const std::int64_t rows : {1, 5, 130}) {
        CAPTURE(h);
        CAPTURE(rows);
        Array x{{rows, h}}, gain{{h}}, bias{{h}}, y{{rows, h}}, mean{{rows}}, rstd{{rows}};
        x.randomize(random, 2.0F), gain.randomize(random), bias.randomize(random);
        kernels.layernorm_forward({}, x, gain, bias, y, mean, rstd);
        const auto want =
            oracle::layernorm(x.doubles(), gain.doubles(), bias.doubles(),
                              static_cast<std::size_t>(rows), static_cast<std::size_t>(h));
        CHECK(error(y, want.y) < tolerance);
        CHECK(error(mean, want.mean) < tolerance);
        CHECK(error(rstd, want.rstd) < tolerance);
      }
  }
}
