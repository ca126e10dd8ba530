#include <doctest/doctest.h>

#include <cmath>

#include "kernels/element.h"
#include "tests/kernels/support.h"

// Guarantees that only a GPU's kernels make.

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("results computed with kernels/element.h have the CPU's bits") {
  Random random{90};
  // Includes exact multiples of a block's elements.
  for (const std::int64_t n : {3001, 1024, 2048, 4096}) {
    // Inputs whose offsets from aligned addresses differ from the output's.
    const std::int64_t offset = n % 3;
    Array x{{n}, 0, offset + 2}, dy{{n}, 0, offset};
    x.randomize(random, 4.0F), dy.randomize(random);
    x[0] = 0.0F, x[1] = -0.0F, x[2] = 1e-40F, x[3] = -1e4F, x[4] = 1e4F;
    const auto both = [&](auto kernel) {
      Array mine{{n}}, theirs{{n}};
      kernel(kernels(), mine);
      kernel(cpu_kernels(), theirs);
      CHECK(mine.untouched());
      CHECK(same_bits(mine, theirs));
    };
    both([&](const Kernels& k, Array& y) { k.gelu_forward({}, x, y); });
    both([&](const Kernels& k, Array& y) { k.gelu_backward({}, x, dy, y); });
    both([&](const Kernels& k, Array& y) { k.add({}, x, dy, y); });
    both([&](const Kernels& k, Array& y) { k.scale({}, y.set(x), 0.1F); });
    both([&](const Kernels& k, Array& parameter) {
      Array momentum{{n}}, variance{{n}};
      momentum.set(0.01F), variance.set(1e-4F);
      k.adamw({}, {{parameter.set(x), dy, momentum, variance, {}}},
              {.weight_decay = 0.1F, .step = 7});
      for (std::int64_t i = 0; i < n; ++i) parameter[i] += momentum[i] + variance[i];
    });
    for (const DType dtype : {DType::bf16, DType::f16})
      both([&](const Kernels& k, Array& y) {
        std::vector<std::uint16_t> narrow(static_cast<std::size_t>(n) + 1);
        const View view{narrow.data() + 1, {n}, dtype};
        k.convert({}, x, view);
        k.convert({}, view, y);
      });
  }
}

TEST_CASE("swiglu and rotary positions have the CPU's bits") {
  Random random{95};
  for (const std::int64_t f : {1, 5, 64, 127, 2048, 4099}) {
    CAPTURE(f);
    const std::int64_t rows = 3, offset = f % 3;
    Array x{{rows, 2 * f}, 0, offset}, dy{{rows, f}, 0, offset + 1};
    x.randomize(random, 4.0F), dy.randomize(random);
    x[0] = 0.0F, x[1] = -1e4F;
    Array y{{rows, f}}, want_y{{rows, f}}, want{{rows, 2 * f}};
    kernels().swiglu_forward({}, x, y);
    cpu_kernels().swiglu_forward({}, x, want_y);
    CHECK(same_bits(y, want_y));
    cpu_kernels().swiglu_backward({}, x, dy, want);
    kernels().swiglu_backward({}, x, dy, x);
    CHECK(same_bits(x, want));
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t d : {2, 6, 64, 128, 200}) {
      CAPTURE(name_of(dtype));
      CAPTURE(d);
      const std::int64_t b = 2, s = 5, heads = 3, h = heads * d;
      Array x{{b, s, h}, d % 3}, table{{7, d}}, got{{b, s, h}}, want{{b, s, h}};
      x.randomize(random), table.randomize(random);
      auto positions = random_indices(random, s, 7);
      for (const bool on_gpu : {false, true}) {
        std::vector<float> memory(size(b * s * (h + 3)) + 1);  // for any type
        View view{memory.data(), {b, s, h}, dtype};
        view.row_stride = h + 3;
        cpu_kernels().convert({}, x, view);
        (on_gpu ? kernels() : cpu_kernels())
            .rotary({}, view, 3, table, indices(positions, {s}), d == 64);
        cpu_kernels().convert({}, view, on_gpu ? got : want);
      }
      CHECK(same_bits(got, want));
    }
}

TEST_CASE("gelu of narrow elements stays accurate when it is tiny") {
  std::vector<std::uint16_t> x, y, dx, one;
  for (float value = -9.0F; value < 9.0F; value += 0.03125F) {
    x.push_back(element::to_bf16(value));
    one.push_back(element::to_bf16(1.0F));
  }
  y.resize(x.size()), dx.resize(x.size());
  const auto view = [](std::vector<std::uint16_t>& of) {
    return View{of.data(), {static_cast<std::int64_t>(of.size())}, DType::bf16};
  };
  kernels().gelu_forward({}, view(x), view(y));
  kernels().gelu_backward({}, view(x), view(one), view(dx));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = element::from_bf16(x[i]);
    CAPTURE(at);
    // Half a unit in bf16's last place; 1 + tanh has no significant digits below -5.
    const double want =
        at < -5.0
            ? at / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (at + 0.044715 * at * at * at)))
            : oracle::gelu(at);
    CHECK(element::from_bf16(y[i]) == doctest::Approx(want).epsilon(0.00392));
    CHECK(std::fabs(element::from_bf16(dx[i]) - oracle::gelu_derivative(at)) < 4e-3);
  }
}

TEST_CASE("swiglu of narrow elements stays accurate when it is tiny") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::int64_t n = 600;
    Array gate{{n, 2}}, one{{n, 1}}, y{{n, 1}}, dx{{n, 2}};
    for (std::int64_t i = 0; i < n; ++i)
      gate[2 * i] = -9.0F + 0.03125F * static_cast<float>(i), gate[2 * i + 1] = one[i] = 1.0F;
    std::vector<std::vector<std::uint16_t>> memory;
    const auto narrow = [&](const Array& array) {
      const Shape shape = array.view().shape;
      memory.emplace_back(size(shape.elements()));
      const View view{memory.back().data(), shape, dtype};
      if (!std::isnan(array[0])) cpu_kernels().convert({}, array, view);
      return view;
    };
    const View x = narrow(gate), dy = narrow(one), y_view = narrow(y), dx_view = narrow(dx);
    kernels().swiglu_forward({}, x, y_view);
    kernels().swiglu_backward({}, x, dy, dx_view);
    cpu_kernels().convert({}, y_view, y);
    cpu_kernels().convert({}, dx_view, dx);
    for (std::int64_t i = 0; i < n; ++i) {
      const double z = gate[2 * i];  // exact in both types
      CAPTURE(z);
      // Half a unit in bf16's last place.
      CHECK(y[i] == doctest::Approx(oracle::silu(z)).epsilon(0.00392));
      CHECK(dx[2 * i + 1] == y[i]);
      CHECK(std::fabs(dx[2 * i] - oracle::silu_derivative(z)) < 4e-3);
    }
  }
}

TEST_CASE("rows of any length are normalised, by one warp or several") {
  Random random{91};
  for (const std::int64_t h : {511, 512, 513, 1024, 1025, 2048, 2049, 8192, 8197, 9000}) {
    CAPTURE(h);
    const auto size = static_cast<std::size_t>(h);
    Array x{{3, h}}, gain{{h}}, y{{3, h}}, mean{{3}}, rstd{{3}}, dy{{3, h}}, dx{{3, h}};
    x.randomize(random, 2.0F), gain.randomize(random), dy.randomize(random);
    kernels().layernorm_forward({}, x, gain, gain, y, mean, rstd);
    const auto want = oracle::layernorm(x.doubles(), gain.doubles(), gain.doubles(), 3, size);
    CHECK(error(y, want.y) < tolerance);
    CHECK(error(rstd, want.rstd) < tolerance);
    kernels().layernorm_backward_input({}, dy, x, gain, mean, rstd, dx);
    CHECK(error(dx,
                oracle::layernorm_backward(x.doubles(), gain.doubles(), dy.doubles(), 3, size).dx) <
          tolerance);

    kernels().rmsnorm_forward({}, x, gain, 1e-6F, y, rstd);
    const auto want_rms = oracle::rmsnorm(x.doubles(), gain.doubles(), 1e-6F, 3, size);
    CHECK(error(y, want_rms.y) < tolerance);
    CHECK(error(rstd, want_rms.rstd) < tolerance);
    kernels().rmsnorm_backward_input({}, dy, x, gain, rstd, dx);
    CHECK(error(dx,
                oracle::rmsnorm_backward(x.doubles(), gain.doubles(), dy.doubles(), 1e-6F, 3, size)
                    .dx) < tolerance);
  }
}

TEST_CASE("cross-entropy over a vocabulary as large as GPT-2's, whose rows begin anywhere") {
  Random random{92};
  const std::int64_t vocabulary = 50257;
  auto targets = random_indices(random, 3, vocabulary);
  targets[0] = 0, targets[1] = vocabulary - 1;
  Array logits{{3, vocabulary}}, losses{{3}}, lse{{3}}, dlogits{{3, vocabulary}};
  logits.randomize(random, 3.0F);
  kernels().cross_entropy_forward({}, logits, indices(targets, {3}), losses, lse);
  const auto want =
      oracle::cross_entropy(logits.doubles(), targets, static_cast<std::size_t>(vocabulary));
  CHECK(error(losses, want.losses) < 1e-6);
  CHECK(error(lse, want.lse) < 1e-6);
  kernels().cross_entropy_backward({}, logits, indices(targets, {3}), lse, 0.5F, dlogits);
  CHECK(error(dlogits, oracle::cross_entropy_backward(logits.doubles(), targets,
                                                      static_cast<std::size_t>(vocabulary), 0.5)) <
        tolerance);
}

TEST_CASE("a token or target outside the vocabulary reads and writes nothing") {
  std::vector<std::int32_t> tokens{1, 7, -1, 2'000'000'000};
  Array table{{7, 3}}, places{{2, 3}}, x{{2, 2, 3}};
  table.set(1.0F), places.set(0.5F);
  kernels().embedding_forward({}, indices(tokens, {2, 2}), table, places, x);
  for (std::int64_t i = 0; i < 12; ++i) CHECK(x[i] == (i < 3 ? 1.5F : 0.5F));
  kernels().embedding_backward({}, indices(tokens, {2, 2}), x, table, places);
  CHECK(table.untouched());
  for (std::int64_t i = 0; i < 21; ++i) CHECK(table[i] == (i / 3 == 1 ? 2.5F : 1.0F));
  for (std::int64_t i = 0; i < 6; ++i) CHECK(places[i] == (i < 3 ? 2.5F : 1.5F));

  Array logits{{4, 7}}, losses{{4}}, lse{{4}};
  logits.set(0.0F);
  kernels().cross_entropy_forward({}, logits, indices(tokens, {4}), losses, lse);
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(std::isnan(losses[i]) == (i > 0));
    CHECK(lse[i] == doctest::Approx(std::log(7.0)));
  }
  kernels().cross_entropy_backward({}, logits, indices(tokens, {4}), lse, 1.0F, logits);
  for (std::int64_t i = 0; i < 28; ++i)
    CHECK(logits[i] == doctest::Approx(i == 1 ? 1.0 / 7 - 1 : 1.0 / 7).epsilon(1e-5));
}

TEST_CASE("tokens outside the vocabulary do not split a token's rows") {
  Random random{94};
  const std::int64_t b = 3, s = 20, h = 5, vocabulary = 7;
  for (int trial = 0; trial < 20; ++trial) {
    auto tokens = random_indices(random, b * s, 40);
    for (std::int32_t& token : tokens) token -= 10;
    Array dx{{b, s, h}}, table{{vocabulary, h}}, places{{s, h}}, want{{vocabulary, h}};
    dx.randomize(random), table.randomize(random), places.set(0.0F), want.set(table);
    for (std::int64_t i = 0; i < dx.elements(); ++i)
      if (const std::int64_t token = tokens[static_cast<std::size_t>(i / h)];
          token >= 0 && token < vocabulary)
        want[token * h + i % h] += dx[i];
    kernels().embedding_backward({}, indices(tokens, {b, s}), dx, table, places);
    CHECK(same_bits(table, want));
  }
}

TEST_CASE("arguments of two types are refused") {
  std::vector<std::uint16_t> narrow(8);
  Array x{{8}}, y{{8}};
  const View half{narrow.data(), {8}, DType::bf16};
  CHECK_THROWS_WITH_AS(kernels().add({}, x, half, y),
                       "add: a (8) is f32 and b (8) is bf16; a GPU's kernel takes one type",
                       std::invalid_argument);
  Array momentum{{8}}, variance{{8}};
  CHECK_THROWS_AS(kernels().adamw({}, {{x, y, momentum, variance, half}}, {}),
                  std::invalid_argument);
}

TEST_CASE("adamw takes any two types of parameter and gradient") {
  Random random{93};
  for (const DType p : {DType::f32, DType::bf16, DType::f16})
    for (const DType g : {DType::f32, DType::bf16, DType::f16}) {
      const std::int64_t n = 77;
      Array start{{n}}, gradient{{n}};
      start.randomize(random), gradient.randomize(random);
      std::vector<Array> results;
      for (const Kernels* k : {&kernels(), &cpu_kernels()}) {
        Array parameter{{n}}, momentum{{n}}, variance{{n}}, result{{n}};
        momentum.set(0.0F), variance.set(0.0F);
        std::vector<float> p_memory(n), g_memory(n);
        const View p_view{p_memory.data(), {n}, p}, g_view{g_memory.data(), {n}, g};
        cpu_kernels().convert({}, start, p_view);
        cpu_kernels().convert({}, gradient, g_view);
        k->adamw({}, {{p_view, g_view, momentum, variance, {}}}, {.weight_decay = 0.1F});
        cpu_kernels().convert({}, p_view, result);
        results.push_back(result);
      }
      CHECK(same_bits(results[0], results[1]));
    }
}
