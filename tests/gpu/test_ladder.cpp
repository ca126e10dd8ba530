#include <doctest/doctest.h>

#include <array>
#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/ladder/attention.h"
#include "kernels/cuda/ladder/cross_entropy.h"
#include "kernels/cuda/ladder/gelu.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "kernels/cuda/ladder/layernorm_backward.h"
#include "kernels/cuda/ladder/matrix_product.h"
#include "tests/gpu/attention_calls.h"
#include "tests/gpu/on_device.h"
#include "tests/kernels/support.h"

// The steps of kernels/cuda/ladder: slower than the kernels that Lockstep uses, but equally
// correct. --subcase='one warp per row' runs one step alone.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Whether this run of the test case is that of the step, which is a subcase: it can run alone.
bool is_subcase(const std::string& step) {
  SUBCASE(step.c_str()) {
    return true;
  }
  return false;
}

/// Returns the largest error in norm of results that are rounded once to `dtype`.
double rounding(DType dtype) {
  return dtype == DType::bf16 ? 0.00391 : dtype == DType::f16 ? 0.00049 : tolerance;
}

}  // namespace

TEST_CASE("each step of the ladder of gelu_forward follows the oracle") {
  for (const cuda::GeluStep& step : cuda::gelu_ladder()) {
    if (!is_subcase(step.name)) continue;
    Kernels with_step = make_cuda_kernels();
    with_step.gelu_forward = step.kernel;
    const Kernels kernels = on_device(with_step);
    Random random{92};
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const std::int64_t n : {1, 7, 8, 2047, 2048, 2100})
        for (const std::int64_t offset : {0, 3}) {
          CAPTURE(n);
          CAPTURE(offset);
          Elements x{dtype, {n}, 0, offset}, y{dtype, {n}, 0, offset == 0 ? 0 : n % 3};
          x.randomize(random, 3.0F);
          kernels.gelu_forward({}, x.view(), y.view());
          Doubles want = x.doubles();
          for (double& each : want) each = oracle::gelu(each);
          CHECK(error(y, want) < rounding(dtype));
        }
  }
}

TEST_CASE("each step of the ladder of layernorm_forward follows the oracle") {
  for (const cuda::LayerNormStep& step : cuda::layernorm_ladder()) {
    if (!is_subcase(step.name)) continue;
    Kernels with_step = make_cuda_kernels();
    with_step.layernorm_forward = step.kernel;
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

TEST_CASE("each step of the ladder of layernorm_backward_input follows the oracle") {
  for (const cuda::LayerNormBackwardStep& step : cuda::layernorm_backward_ladder()) {
    if (!is_subcase(step.name)) continue;
    Kernels with_step = make_cuda_kernels();
    with_step.layernorm_backward_input = step.kernel;
    const Kernels kernels = on_device(with_step);
    Random random{97};
    for (const std::int64_t h : {1, 31, 32, 33, 257, 768})
      for (const std::int64_t rows : {1, 5, 130}) {
        CAPTURE(h);
        CAPTURE(rows);
        Array dy{{rows, h}}, x{{rows, h}}, gain{{h}}, mean{{rows}}, rstd{{rows}}, dx{{rows, h}};
        dy.randomize(random), x.randomize(random, 2.0F), gain.randomize(random);
        cpu_kernels().layernorm_forward({}, x, gain, gain, dx, mean, rstd);
        kernels.layernorm_backward_input({}, dy, x, gain, mean, rstd, dx);
        const auto want = oracle::layernorm_backward(x.doubles(), gain.doubles(), dy.doubles(),
                                                     size(rows), size(h));
        // A row of one element is constant: dx is 0, except for the rounding of mean.
        CHECK(error(dx, want.dx) < tolerance);
      }
  }
}

TEST_CASE("each step of the ladder of cross_entropy_forward follows the oracle") {
  for (const cuda::CrossEntropyStep& step : cuda::cross_entropy_ladder()) {
    if (!is_subcase(step.name)) continue;
    Kernels with_step = make_cuda_kernels();
    with_step.cross_entropy_forward = step.kernel;
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
    if (!is_subcase(step.name)) continue;
    Kernels with_step = make_cuda_kernels();
    with_step.linear_forward = step.kernel;
    const Kernels kernels = on_device(with_step);
    Random random{95};
    for (int trial = 0; trial < 12; ++trial) {
      const DType dtype =
          std::array{DType::bf16, DType::f16, DType::f32}[trial % (step.takes_f32 ? 3 : 2)];
      // Every fourth trial has whole rows, which are loaded by 16 bytes.
      const std::int64_t unit = trial % 4 == 3 ? 8 : 1, gap = unit == 8 ? 0 : trial % 4;
      const std::int64_t rows = random.between(1, 150), in = unit * random.between(1, 70 / unit),
                         out = unit * random.between(1, 150 / unit);
      CAPTURE(name_of(dtype));
      CAPTURE(rows);
      CAPTURE(in);
      CAPTURE(out);
      const bool out_in = trial / 2 % 2 == 1, adds_bias = trial % 5 > 0;
      Elements x{dtype, {rows, in}, gap, gap}, bias{dtype, {out}, 0, gap};
      Elements w{dtype, out_in ? Shape{out, in} : Shape{in, out}, 0, gap};
      Elements y{dtype, {rows, out}, trial % 3, 0};
      x.randomize(random), w.randomize(random), bias.randomize(random);
      kernels.linear_forward({}, x.view(), w.view(), adds_bias ? bias.view() : View{}, y.view(),
                             out_in ? WeightLayout::out_in : WeightLayout::in_out);
      const Doubles want =
          oracle::linear(x.doubles(), w.doubles(), adds_bias ? bias.doubles() : Doubles{},
                         size(rows), size(in), size(out), out_in);
      CHECK(error(y, want) < rounding(dtype));
    }
  }
}

TEST_CASE("each step of the ladder of attention_forward follows the oracle") {
  for (const cuda::AttentionStep& step : cuda::attention_ladder()) {
    if (!is_subcase(step.name)) continue;
    Kernels with_step = make_cuda_kernels();
    with_step.attention_forward = step.kernel;
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
