#include <doctest/doctest.h>

#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/ladder/cross_entropy.h"
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

TEST_CASE("each step of the ladder of cross_entropy_forward follows the oracle") {
  for (const cuda::CrossEntropyStep& step : cuda::cross_entropy_ladder()) {
    CAPTURE(step.name);
    Kernels with_step = make_cuda_kernels();
    with_step.cross_entropy_forward = step.forward;
    const Kernels kernels = on_device(with_step);
    Random random{94};
    for (const float scale : {1.0F, 300.0F})
      for (const std::int64_t vocabulary : {1, 2, 31, 256, 257, 1000})
        for (const std::int64_t rows : {1, 5, 130}) {
          CAPTURE(vocabulary);
          CAPTURE(rows);
          Array logits{{rows, vocabulary}}, losses{{rows}}, lse{{rows}};
          logits.randomize(random, scale);
          logits[0] = vocabulary > 2 ? -infinity : logits[0];
          auto targets = random_indices(random, rows, vocabulary);
          targets[0] = static_cast<std::int32_t>(vocabulary - 1);  // not the impossible one
          kernels.cross_entropy_forward({}, logits, indices(targets, {rows}), losses, lse);
          const auto want = oracle::cross_entropy(logits.doubles(), targets,
                                                  static_cast<std::size_t>(vocabulary));
          CHECK(error(losses, want.losses) < tolerance);
          CHECK(error(lse, want.lse) < tolerance);
        }
  }
}
