#include <doctest/doctest.h>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct State {
  Array parameter, gradient, momentum, variance;

  explicit State(std::int64_t n, std::int64_t offset = 1)
      : parameter{{n}, 0, offset},
        gradient{{n}, 0, offset},
        momentum{{n}, 0, offset},
        variance{{n}, 0, offset} {}
  State& randomize(Random& random) {
    parameter.randomize(random), gradient.randomize(random, 0.1F);
    momentum.randomize(random, 0.1F), variance.randomize(random, 0.1F);
    for (std::int64_t i = 0; i < variance.elements(); ++i) variance[i] *= variance[i];
    return *this;
  }
  /// Copies elements [first, first + n) of another state.
  State& set(const State& other, std::int64_t first = 0) {
    for (std::int64_t i = 0; i < parameter.elements(); ++i) {
      parameter[i] = other.parameter[first + i];
      gradient[i] = other.gradient[first + i];
      momentum[i] = other.momentum[first + i];
      variance[i] = other.variance[first + i];
    }
    return *this;
  }
  void step(const AdamWStep& step) {
    kernels().adamw({}, {{parameter, gradient, momentum, variance, {}}}, step);
  }
  bool untouched() const {
    return parameter.untouched() && momentum.untouched() && variance.untouched();
  }
};

}  // namespace

TEST_CASE("adamw follows the published algorithm over twenty steps") {
  Random random{70};
  AdamWStep step{.learning_rate = 3e-3F, .weight_decay = 0.1F, .gradient_scale = 0.5F};
  const oracle::AdamW exact{step.learning_rate, step.beta1,        step.beta2,
                            step.epsilon,       step.weight_decay, step.gradient_scale};
  State state{101};
  state.parameter.randomize(random), state.momentum.set(0.0F), state.variance.set(0.0F);
  Doubles p = state.parameter.doubles(), m(p.size()), v(p.size());
  for (step.step = 1; step.step <= 20; ++step.step) {
    state.gradient.randomize(random);
    const Doubles before = state.parameter.doubles();
    for (std::size_t i = 0; i < p.size(); ++i)
      oracle::adamw(exact, static_cast<int>(step.step),
                    state.gradient[static_cast<std::int64_t>(i)], p[i], m[i], v[i]);
    state.step(step);
    CHECK(error(state.parameter, p) < 1e-6);
    CHECK(error(state.momentum, m) < 1e-6);
    CHECK(error(state.variance, v) < 1e-6);
    CHECK(state.untouched());
  }
}

TEST_CASE("adamw's first step moves each parameter by the learning rate, against the gradient") {
  State state{5};
  state.parameter.set(1.0F), state.momentum.set(0.0F), state.variance.set(0.0F);
  for (std::int64_t i = 0; i < 5; ++i) state.gradient[i] = i % 2 ? 1e-3F : -40.0F;
  state.step({.learning_rate = 0.01F});
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(state.parameter[i] == doctest::Approx(i % 2 ? 0.99 : 1.01).epsilon(1e-5));
}

TEST_CASE("adamw without a gradient only decays the weight") {
  State state{3};
  state.parameter.set(2.0F), state.gradient.set(0.0F);
  state.momentum.set(0.0F), state.variance.set(0.0F);
  state.step({.learning_rate = 0.1F, .weight_decay = 0.5F});
  CHECK(state.parameter[0] == doctest::Approx(1.9).epsilon(1e-6));
}

TEST_CASE("adamw gives the same bits on a shard as on the whole") {
  Random random{71};
  const AdamWStep step{.weight_decay = 0.1F, .gradient_scale = 0.3F, .step = 3};
  State all{257};
  all.randomize(random);
  State updated{257};
  updated.set(all).step(step);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t first = random.between(0, 256), n = random.between(1, 257 - first);
    State shard{n, random.between(0, 15)}, want{n};
    shard.set(all, first).step(step);
    want.set(updated, first);
    CHECK(same_bits(shard.parameter, want.parameter));
    CHECK(same_bits(shard.momentum, want.momentum));
    CHECK(same_bits(shard.variance, want.variance));
    CHECK(shard.untouched());
  }
}

TEST_CASE("adamw counts steps from 1") {
  State state{1};
  CHECK_THROWS_AS(state.step({.step = 0}), std::invalid_argument);
}

TEST_CASE("sums are taken in double") {
  Random random{72};
  for (std::int64_t n : {0, 1, 3, 16, 31, 32, 33, 1000}) {
    Array x{{n}};
    x.randomize(random);
    double sum = 0.0, squares = 0.0;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i], squares += double{x[i]} * x[i];
    CHECK(sum_of(&Kernels::sums, x) == doctest::Approx(sum).epsilon(1e-12));
    CHECK(sum_of(&Kernels::sums_of_squares, x) == doctest::Approx(squares).epsilon(1e-12));
  }
  Array large{{2}};
  large[0] = 1e30F, large[1] = 1e-3F;
  CHECK(sum_of(&Kernels::sums_of_squares, large) == doctest::Approx(1e60));
  Array many{{100'000}};
  many.set(0.1F);
  CHECK(sum_of(&Kernels::sums, many) == doctest::Approx(100'000 * double{0.1F}).epsilon(1e-12));
}

namespace {

/// Elements of any floating-point type, at an address that is not 16-byte aligned.
struct Elements {
  Elements(DType dtype, std::int64_t n, Random& random)
      : memory(static_cast<std::size_t>(n) * size_of(dtype) + 4), from{{n}} {
    view = View{memory.data() + 4, {n}, dtype};
    cpu_kernels().convert({}, from.randomize(random), view);
  }
  std::vector<std::byte> memory;
  Array from;
  View view;
};

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace

TEST_CASE("sums of a list of tensors are those of each tensor, of any type and size") {
  Random random{73};
  std::vector<Elements> all;
  for (int i = 0; i < 300; ++i)  // more than a GPU sums in one launch, types mixed at the end
    all.emplace_back(types[i < 280 ? i / 140 : i % 3],
                     i % 5 == 0 ? random.between(0, 1) : random.between(0, 3000), random);
  all.emplace_back(DType::f32, 40'000, random);
  Ins list;
  for (const Elements& each : all) list.emplace_back(each.view);
  for (const auto kernel :
       {&Kernels::sums, &Kernels::sums_of_squares, &Kernels::counts_of_not_finite}) {
    const std::vector<double> sums = sums_of(kernel, list);
    int wrong = 0;
    for (std::size_t i = 0; i < list.size(); ++i) wrong += sums[i] != sum_of(kernel, list[i]);
    CHECK(wrong == 0);
  }
  CHECK(sums_of(&Kernels::sums, {}).empty());
}

TEST_CASE("sums must be one aligned double for each view") {
  Array x{{3}};
  std::vector<double> memory(3);
  const auto sum = [&](View sums) { kernels().sums({}, {x, x}, sums); };
  CHECK_NOTHROW(sum(View{memory.data(), {2, 2}}));
  CHECK_THROWS_AS(sum(View{memory.data(), {3, 2}}), std::invalid_argument);
  CHECK_THROWS_AS(sum(View{reinterpret_cast<float*>(memory.data()) + 1, {2, 2}}),
                  std::invalid_argument);
}

TEST_CASE("adamw updates a list of tensors as it does each, and rounds it into the 16-bit copy") {
  const AdamWStep step{.weight_decay = 0.1F, .gradient_scale = 0.5F, .step = 3};
  Random random{74};
  std::vector<State> one_by_one, together;
  std::vector<Elements> gradients, copies;
  for (int i = 0; i < 150; ++i) {  // more than a GPU updates in one launch
    const std::int64_t n = i % 7 == 0 ? 0 : random.between(1, 2500);
    const DType dtype = types[i < 140 ? i / 70 : i % 3];
    one_by_one.push_back(State{n, random.between(1, 4)}.randomize(random));
    together.push_back(one_by_one.back());
    gradients.emplace_back(dtype, n, random);
    copies.emplace_back(dtype, n, random);
  }
  std::vector<AdamWTensor> list;
  for (std::size_t i = 0; i < together.size(); ++i) {
    State &one = one_by_one[i], &other = together[i];
    kernels().adamw({}, {{one.parameter, gradients[i].view, one.momentum, one.variance, {}}}, step);
    list.push_back({other.parameter, gradients[i].view, other.momentum, other.variance,
                    i % 4 == 0 ? View{} : copies[i].view});
  }
  const std::vector<Elements> before = copies;
  kernels().adamw({}, list, step);
  for (std::size_t i = 0; i < together.size(); ++i) {
    CAPTURE(i);
    const State &one = one_by_one[i], &other = together[i];
    CHECK(same_bits(one.parameter, other.parameter));
    CHECK(same_bits(one.momentum, other.momentum));
    CHECK(same_bits(one.variance, other.variance));
    CHECK(other.untouched());
    Elements rounded = before[i];
    rounded.view.data = rounded.memory.data() + 4;
    if (i % 4 != 0) cpu_kernels().convert({}, one.parameter, rounded.view);
    CHECK(copies[i].memory == rounded.memory);
  }
}

TEST_CASE("adamw's copy must have as many elements as the parameter") {
  State state{3};
  Array copy{{4}};
  CHECK_THROWS_AS(
      kernels().adamw({}, {{state.parameter, state.gradient, state.momentum, state.variance, copy}},
                      {}),
      std::invalid_argument);
}
