#include <doctest/doctest.h>

#include "kernels/element.h"
#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("swiglu and its gradient treat each pair independently, and follow the oracle") {
  Random random{54};
  for (const std::int64_t rows : {1, 3, 40})
    for (const std::int64_t f : {1, 2, 7, 16, 31, 33, 100, 384}) {
      CAPTURE(rows);
      CAPTURE(f);
      Array x{{rows, 2 * f}}, dy{{rows, f}}, y{{rows, f}}, dx{{rows, 2 * f}};
      x.randomize(random, 3.0F), dy.randomize(random);
      kernels().swiglu_forward({}, x, y);
      kernels().swiglu_backward({}, x, dy, dx);
      CHECK(error(y, oracle::swiglu(x.doubles(), size(f))) < tolerance);
      CHECK(error(dx, oracle::swiglu_backward(x.doubles(), dy.doubles(), size(f))) < tolerance);
      for (std::int64_t i = 0; i < rows * f; ++i) {
        const std::int64_t gate = i / f * 2 * f + i % f, up = gate + f;
        CHECK(y[i] == element::silu(x[gate]) * x[up]);
        CHECK(dx[gate] == dy[i] * x[up] * element::silu_derivative(x[gate]));
        CHECK(dx[up] == dy[i] * element::silu(x[gate]));
      }
      kernels().swiglu_backward({}, x, dy, x);
      CHECK(same_bits(x, dx));
    }
}

TEST_CASE("swiglu of no rows, or of rows without columns, does nothing") {
  for (const Shape y : {Shape{0, 4}, Shape{4, 0}}) {
    Array x{{y[0], 2 * y[1]}}, out{y};
    kernels().swiglu_forward({}, x, out);
    kernels().swiglu_backward({}, x, out, x);
    CHECK(x.untouched());
    CHECK(out.untouched());
  }
}
