#include <doctest/doctest.h>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct RmsNorm {
  Array x, gain, y, rstd, dy, dx, dgain;

  RmsNorm(std::int64_t rows, std::int64_t h, Random& random)
      : x{{rows, h}},
        gain{{h}},
        y{{rows, h}},
        rstd{{rows}},
        dy{{rows, h}},
        dx{{rows, h}},
        dgain{{h}} {
    x.randomize(random, 2.0F);
    for (Array* each : {&gain, &dy, &dgain}) each->randomize(random);
  }
};

}  // namespace

TEST_CASE("rmsnorm_forward and its gradients, over random shapes") {
  Random random{24};
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t rows = random.between(1, 80), h = random.between(1, trial % 2 ? 9 : 700);
    const float epsilon = trial % 3 ? 1e-5F : 1.5F;
    CAPTURE(rows);
    CAPTURE(h);
    CAPTURE(epsilon);
    RmsNorm t{rows, h, random};
    const Doubles x = t.x.doubles(), gain = t.gain.doubles(), dy = t.dy.doubles();
    const Doubles dgain = t.dgain.doubles();
    kernels().rmsnorm_forward({}, t.x, t.gain, epsilon, t.y, t.rstd);
    const auto want = oracle::rmsnorm(x, gain, epsilon, size(rows), size(h));
    CHECK(error(t.y, want.y) < tolerance);
    CHECK(error(t.rstd, want.rstd) < tolerance);

    const auto gradients = oracle::rmsnorm_backward(x, gain, dy, epsilon, size(rows), size(h));
    kernels().rmsnorm_backward_input({}, t.dy, t.x, t.gain, t.rstd, t.dx);
    // With one column, dx is nearly zero, because it is the difference of terms as large as dy *
    // rstd.
    if (h > 4) CHECK(error(t.dx, gradients.dx) < tolerance);
    kernels().rmsnorm_backward_weight({}, t.dy, t.x, t.rstd, t.dgain);
    CHECK(error(t.dgain, plus(dgain, gradients.dgain)) < tolerance);

    // The gradient is bitwise identical if it is computed in place.
    kernels().rmsnorm_backward_input({}, t.dy, t.x, t.gain, t.rstd, t.dy);
    CHECK(same_bits(t.dy, t.dx));
  }
}

TEST_CASE("rmsnorm of a row of zeros is zero, with rstd 1 / sqrt(epsilon)") {
  Random random{25};
  for (const std::int64_t h : {1, 16, 100}) {
    RmsNorm t{3, h, random};
    t.x.set(0.0F);
    kernels().rmsnorm_forward({}, t.x, t.gain, 1e-6F, t.y, t.rstd);
    for (std::int64_t i = 0; i < t.y.elements(); ++i) CHECK(t.y[i] == 0.0F);
    CHECK(t.rstd[2] == doctest::Approx(1000.0));
    kernels().rmsnorm_backward_input({}, t.dy, t.x, t.gain, t.rstd, t.dx);
    for (std::int64_t i = 0; i < t.dx.elements(); ++i)
      CHECK(t.dx[i] == doctest::Approx(1000.0 * t.dy[i] * t.gain[i % h]));
  }
}

TEST_CASE("rmsnorm does not change if its rows are scaled") {
  Random random{26};
  RmsNorm t{5, 64, random};
  kernels().rmsnorm_forward({}, t.x, t.gain, 0.0F, t.y, t.rstd);
  Array scaled{{5, 64}}, y{{5, 64}}, rstd{{5}};
  for (std::int64_t i = 0; i < t.x.elements(); ++i) scaled[i] = t.x[i] * 1024.0F;
  kernels().rmsnorm_forward({}, scaled, t.gain, 0.0F, y, rstd);
  CHECK(same_bits(y, t.y));  // because 1024 is a power of two
}
