#include <doctest/doctest.h>

#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/ladder/attention.h"
#include "kernels/cuda/ladder/cross_entropy.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "kernels/cuda/ladder/matrix_product.h"
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

TEST_CASE("each step of the ladder of linear_forward follows the oracle") {
  for (const cuda::MatrixProductStep& step : cuda::matrix_product_ladder()) {
    CAPTURE(step.name);
    Kernels with_step = make_cuda_kernels();
    with_step.linear_forward = step.forward;
    const Kernels kernels = on_device(with_step);
    Random random{95};
    for (int trial = 0; trial < 12; ++trial) {
      const std::int64_t rows = random.between(1, 70), in = random.between(1, 70),
                         out = random.between(1, 70);
      CAPTURE(rows);
      CAPTURE(in);
      CAPTURE(out);
      const bool out_in = trial % 2 == 1, adds_bias = trial % 3 > 0;
      Array x{{rows, in}, trial % 4}, w{out_in ? Shape{out, in} : Shape{in, out}}, bias{{out}};
      Array y{{rows, out}, trial % 3};
      x.randomize(random), w.randomize(random), bias.randomize(random);
      kernels.linear_forward({}, x, w, adds_bias ? bias.view() : View{}, y,
                             out_in ? WeightLayout::out_in : WeightLayout::in_out);
      const Doubles want =
          oracle::linear(x.doubles(), w.doubles(), adds_bias ? bias.doubles() : Doubles{},
                         size(rows), size(in), size(out), out_in);
      CHECK(error(y, want) < tolerance);
    }
  }
}

TEST_CASE("each step of the ladder of attention_forward follows the oracle") {
  for (const cuda::AttentionStep& step : cuda::attention_ladder()) {
    CAPTURE(step.name);
    Kernels with_step = make_cuda_kernels();
    with_step.attention_forward = step.forward;
    const Kernels kernels = on_device(with_step);
    Random random{96};
    for (const std::int64_t d : {1, 31, 64, 128})
      for (const std::int64_t s : {1, 33, 50}) {
        CAPTURE(d);
        CAPTURE(s);
        const Shape shape{2, s, 3 * d};
        Array q{shape, 1}, k{shape, 2}, v{shape, 3}, y{shape}, lse{{2, 3, s}};
        q.randomize(random, 3.0F), k.randomize(random), v.randomize(random);
        kernels.attention_forward({}, q, k, v, 3, y, lse, {});
        const auto want = oracle::attention(q.doubles(), k.doubles(), v.doubles(),
                                            {.b = 2, .s = size(s), .h = size(3 * d), .heads = 3});
        CHECK(error(y, want.y) < tolerance);
        CHECK(error(lse, want.lse) < tolerance);
      }
  }
}
