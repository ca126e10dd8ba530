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

// Tests every type and every alignment, and rows too long for the registers of a GPU's block.
TEST_CASE("a fusion with an addition has the bits of the two kernels") {
  if (!kernels().add_layernorm_forward) return;
  Random random{23};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t h : {1, 7, 64, 300, 1024, 2049, 9000, 17001})
      for (const std::int64_t offset : {0, 1}) {
        CAPTURE(name_of(dtype));
        CAPTURE(h);
        const std::int64_t rows = h > 2000 ? 2 : 5;
        Array mean{{rows}}, rstd{{rows}}, want_mean{{rows}}, want_rstd{{rows}};
        std::vector<Array> memory;
        memory.reserve(16);
        // A contiguous view of random elements. An Array of f32 has room for any type.
        const auto view = [&](Shape shape) {
          Array& wide = memory.emplace_back(shape, 0, 0);
          wide.randomize(random);
          if (dtype == DType::f32 && offset == 0) return wide.view();
          Array& array = memory.emplace_back(Shape{shape.elements() + 1}, 0, 0);
          View narrow{
              static_cast<std::byte*>(array.view().data) + offset * (dtype == DType::f32 ? 4 : 2),
              shape, dtype};
          cpu_kernels().convert({}, wide, narrow);
          return narrow;
        };
        const auto same = [](const View& a, const View& b) {
          return std::memcmp(a.data, b.data, a.bytes()) == 0;
        };
        const View a = view({rows, h}), b = view({rows, h}), gain = view({h}), bias = view({h});
        const View sum = view({rows, h}), y = view({rows, h}), want_y = view({rows, h});
        kernels().add({}, a, b, sum);
        kernels().layernorm_forward({}, sum, gain, bias, want_y, want_mean, want_rstd);
        kernels().add_layernorm_forward({}, a, b, b, gain, bias, y, mean, rstd);  // in place
        CHECK(same(b, sum));
        CHECK(same(y, want_y));
        CHECK(same_bits(mean, want_mean));
        CHECK(same_bits(rstd, want_rstd));

        const View& dy = y;  // any numbers
        kernels().layernorm_backward_input({}, dy, sum, gain, mean, rstd, want_y);
        kernels().add({}, a, want_y, want_y);
        kernels().layernorm_backward_input_add({}, dy, sum, gain, mean, rstd, a, b);
        CHECK(same(b, want_y));
        kernels().layernorm_backward_input_add({}, dy, sum, gain, mean, rstd, a, dy);
        CHECK(same(dy, want_y));
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
