#include <doctest/doctest.h>

#include <functional>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

// Each test reduces a forward function's outputs to one number, using random weights dy. The
// backward function must return the gradient of that number.
namespace {

double weighted(const Doubles& y, const Doubles& dy) {
  double sum = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

/// Returns the largest difference between `gradient` and central differences of f at x, relative to
/// the largest entry of the gradient.
double gradient_error(const std::function<double(const Doubles&)>& f, const Doubles& x,
                      const Doubles& gradient) {
  constexpr double step = 1e-5;
  double worst = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Doubles above = x, below = x;
    above[i] += step;
    below[i] -= step;
    worst = std::fmax(worst, std::fabs((f(above) - f(below)) / (2.0 * step) - gradient[i]));
    largest = std::fmax(largest, std::fabs(gradient[i]));
  }
  return worst / largest;
}

Doubles random_doubles(Random& random, std::size_t n) {
  Doubles result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(random.normal());
  return result;
}

}  // namespace

TEST_CASE("the oracle's linear backward is the derivative of its forward") {
  Random random{1};
  const std::size_t rows = 3, in = 4, out = 5;
  for (bool out_in : {false, true}) {
    const Doubles x = random_doubles(random, rows * in), w = random_doubles(random, in * out),
                  bias = random_doubles(random, out), dy = random_doubles(random, rows * out);
    const auto g = oracle::linear_backward(x, w, dy, rows, in, out, out_in);
    const auto loss = [&](const Doubles& x_, const Doubles& w_, const Doubles& bias_) {
      return weighted(oracle::linear(x_, w_, bias_, rows, in, out, out_in), dy);
    };
    CHECK(gradient_error([&](const Doubles& at) { return loss(at, w, bias); }, x, g.dx) < 1e-8);
    CHECK(gradient_error([&](const Doubles& at) { return loss(x, at, bias); }, w, g.dw) < 1e-8);
    CHECK(gradient_error([&](const Doubles& at) { return loss(x, w, at); }, bias, g.db) < 1e-8);
  }
}

TEST_CASE("the oracle's layernorm backward is the derivative of its forward") {
  Random random{2};
  const std::size_t rows = 3, h = 7;
  const Doubles x = random_doubles(random, rows * h), gain = random_doubles(random, h),
                bias = random_doubles(random, h), dy = random_doubles(random, rows * h);
  const auto g = oracle::layernorm_backward(x, gain, dy, rows, h);
  const auto loss = [&](const Doubles& x_, const Doubles& gain_, const Doubles& bias_) {
    return weighted(oracle::layernorm(x_, gain_, bias_, rows, h).y, dy);
  };
  CHECK(gradient_error([&](const Doubles& at) { return loss(at, gain, bias); }, x, g.dx) < 1e-8);
  CHECK(gradient_error([&](const Doubles& at) { return loss(x, at, bias); }, gain, g.dgain) < 1e-8);
  CHECK(gradient_error([&](const Doubles& at) { return loss(x, gain, at); }, bias, g.dbias) < 1e-8);
}

TEST_CASE("the oracle's rmsnorm backward is the derivative of its forward") {
  Random random{5};
  const std::size_t rows = 3, h = 7;
  const double epsilon = 0.1;
  const Doubles x = random_doubles(random, rows * h), gain = random_doubles(random, h),
                dy = random_doubles(random, rows * h);
  const auto g = oracle::rmsnorm_backward(x, gain, dy, epsilon, rows, h);
  const auto loss = [&](const Doubles& x_, const Doubles& gain_) {
    return weighted(oracle::rmsnorm(x_, gain_, epsilon, rows, h).y, dy);
  };
  CHECK(gradient_error([&](const Doubles& at) { return loss(at, gain); }, x, g.dx) < 1e-8);
  CHECK(gradient_error([&](const Doubles& at) { return loss(x, at); }, gain, g.dgain) < 1e-8);
}

TEST_CASE("the oracle's swiglu backward is the derivative of its forward") {
  Random random{6};
  const std::size_t rows = 3, f = 5;
  const Doubles x = random_doubles(random, rows * 2 * f), dy = random_doubles(random, rows * f);
  CHECK(gradient_error([&](const Doubles& at) { return weighted(oracle::swiglu(at, f), dy); }, x,
                       oracle::swiglu_backward(x, dy, f)) < 1e-8);
}

TEST_CASE("the oracle's inverse rotation is the derivative of its rotation") {
  Random random{7};
  const std::size_t rows = 4, heads = 2, d = 6;
  const Doubles x = random_doubles(random, rows * heads * d),
                dy = random_doubles(random, rows * heads * d),
                table = random_doubles(random, 3 * d);  // not only rotations
  const std::vector<std::int32_t> positions{2, 0, 1, 2};
  const auto loss = [&](const Doubles& at) {
    return weighted(oracle::rotary(at, heads, d, table, positions, false), dy);
  };
  CHECK(gradient_error(loss, x, oracle::rotary(dy, heads, d, table, positions, true)) < 1e-8);
}

TEST_CASE("the oracle's gelu derivative is the derivative of its gelu") {
  for (double x = -6.0; x < 6.0; x += 0.1) {
    const double difference = (oracle::gelu(x + 1e-5) - oracle::gelu(x - 1e-5)) / 2e-5;
    CHECK(oracle::gelu_derivative(x) == doctest::Approx(difference).epsilon(1e-8));
  }
}

TEST_CASE("the oracle's attention backward is the derivative of its forward") {
  Random random{3};
  for (const std::size_t groups : {1U, 2U, 4U})
    for (const bool documents : {false, true}) {
      oracle::Heads n{.b = 2, .s = 5, .h = 12, .heads = 4, .groups = groups};
      oracle::Visible visible = oracle::causal(n);
      if (documents) {  // keys other than the queries', and queries that see no key
        n.keys = 4;
        for (auto& [begin, end] : visible) begin = end % 3, end = 2 * end % 5;
      }
      const std::size_t of_q = n.b * n.s * n.h, of_k = n.b * n.keys * groups * n.d();
      const Doubles q = random_doubles(random, of_q), k = random_doubles(random, of_k),
                    v = random_doubles(random, of_k), dy = random_doubles(random, of_q);
      const auto g = oracle::attention_backward(q, k, v, dy, n, visible);
      const auto loss = [&](const Doubles& q_, const Doubles& k_, const Doubles& v_) {
        return weighted(oracle::attention(q_, k_, v_, n, visible).y, dy);
      };
      CHECK(gradient_error([&](const Doubles& at) { return loss(at, k, v); }, q, g.dq) < 1e-8);
      CHECK(gradient_error([&](const Doubles& at) { return loss(q, at, v); }, k, g.dk) < 1e-8);
      CHECK(gradient_error([&](const Doubles& at) { return loss(q, k, at); }, v, g.dv) < 1e-8);
    }
}

TEST_CASE("the oracle's cross-entropy backward is the derivative of its forward") {
  Random random{4};
  const std::size_t vocabulary = 6;
  const std::vector<std::int32_t> targets{0, 5, 2};
  const Doubles logits = random_doubles(random, targets.size() * vocabulary);
  const auto g = oracle::cross_entropy_backward(logits, targets, vocabulary, 0.25);
  const auto loss = [&](const Doubles& at) {
    double sum = 0.0;
    for (double one : oracle::cross_entropy(at, targets, vocabulary).losses) sum += one;
    return 0.25 * sum;
  };
  CHECK(gradient_error(loss, logits, g) < 1e-8);
}
