#include <doctest/doctest.h>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct LayerNorm {
  Array x, gain, bias, y, mean, rstd, dy, dx, dgain, dbias;

  LayerNorm(std::int64_t rows, std::int64_t h, Random& random)
      : x{{rows, h}},
        gain{{h}},
        bias{{h}},
        y{{rows, h}},
        mean{{rows}},
        rstd{{rows}},
        dy{{rows, h}},
        dx{{rows, h}},
        dgain{{h}},
        dbias{{h}} {
    x.randomize(random, 2.0F), gain.randomize(random), bias.randomize(random);
    dy.randomize(random), dgain.randomize(random), dbias.randomize(random);
  }
  void forward() { kernels().layernorm_forward({}, x, gain, bias, y, mean, rstd); }
};

}  // namespace

TEST_CASE("layernorm_forward and its gradients, over random shapes") {
  Random random{20};
  for (int trial = 0; trial < 60; ++trial) {
    // A row of one element has no variance; a test below covers it.
    const std::int64_t rows = random.between(1, 80), h = random.between(2, trial % 2 ? 9 : 700);
    CAPTURE(rows);
    CAPTURE(h);
    LayerNorm t{rows, h, random};
    const Doubles x = t.x.doubles(), gain = t.gain.doubles(), dy = t.dy.doubles();
    const Doubles dgain = t.dgain.doubles(), dbias = t.dbias.doubles();
    t.forward();
    const auto want = oracle::layernorm(x, gain, t.bias.doubles(), size(rows), size(h));
    CHECK(error(t.y, want.y) < tolerance);
    CHECK(error(t.mean, want.mean) < tolerance);
    CHECK(error(t.rstd, want.rstd) < tolerance);

    const auto gradients = oracle::layernorm_backward(x, gain, dy, size(rows), size(h));
    kernels().layernorm_backward_input({}, t.dy, t.x, t.gain, t.mean, t.rstd, t.dx);
    // With two columns, dx is nearly zero, because it is the difference of terms as large as dy *
    // rstd.
    if (h > 4) CHECK(error(t.dx, gradients.dx) < tolerance);
    kernels().layernorm_backward_weight({}, t.dy, t.x, t.mean, t.rstd, t.dgain, t.dbias);
    CHECK(error(t.dgain, plus(dgain, gradients.dgain)) < tolerance);
    CHECK(error(t.dbias, plus(dbias, gradients.dbias)) < tolerance);

    // The gradient is bitwise identical if it is computed in place.
    kernels().layernorm_backward_input({}, t.dy, t.x, t.gain, t.mean, t.rstd, t.dy);
    CHECK(same_bits(t.dy, t.dx));
  }
}

TEST_CASE("layernorm of a row without variance is the bias") {
  Random random{21};
  for (std::int64_t h : {1, 2, 16, 100}) {
    LayerNorm t{3, h, random};
    t.x.set(1.0F);
    t.forward();
    for (std::int64_t i = 0; i < t.y.elements(); ++i) CHECK(t.y[i] == t.bias[i % h]);
    CHECK(t.rstd[0] == doctest::Approx(1.0 / std::sqrt(1e-5)));
    kernels().layernorm_backward_input({}, t.dy, t.x, t.gain, t.mean, t.rstd, t.dx);
    const auto want =
        oracle::layernorm_backward(t.x.doubles(), t.gain.doubles(), t.dy.doubles(), 3, size(h));
    if (h > 1) CHECK(error(t.dx, want.dx) < tolerance);
  }
}

TEST_CASE("layernorm keeps a small variance beside a large mean") {
  Random random{22};
  LayerNorm t{4, 128, random};
  // Integers around 4096 are exact in f32, but E[x²] - E[x]² would lose all digits.
  for (std::int64_t i = 0; i < t.x.elements(); ++i)
    t.x[i] = 4096.0F + static_cast<float>(random.between(-2, 2));
  t.forward();
  const auto want = oracle::layernorm(t.x.doubles(), t.gain.doubles(), t.bias.doubles(), 4, 128);
  // The mean is rounded to a multiple of 2^-11, and the spread of x is only 1.4.
  CHECK(error(t.y, want.y) < 1e-3);
  CHECK(error(t.rstd, want.rstd) < tolerance);
}
