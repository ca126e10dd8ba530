#include <doctest/doctest.h>

#include <numeric>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A random router with its results, and a random assignment of the choices to M slots; some
/// choices have none (-1).
struct Routing {
  Routing(Random& random, std::int64_t rows_, std::int64_t experts_, std::int64_t k_)
      : rows(rows_),
        experts(experts_),
        k(k_),
        logits{{rows, experts}},
        probabilities{{rows, experts}},
        gaps{{rows}},
        chosen(static_cast<std::size_t>(rows * k)),
        slots(chosen.size()) {
    logits.randomize(random);
    kernels().router_forward({}, logits, probabilities, chosen_view(), gaps);
    for (std::int32_t& slot : slots)
      slot = random.between(0, 3) == 0 ? -1 : static_cast<std::int32_t>(kept++);
    // The slots are not in order of the rows.
    for (std::size_t i = slots.size(); i-- > 1;)
      std::swap(slots[i],
                slots[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i)))]);
  }
  View chosen_view() { return indices(chosen, {rows, k}); }
  View slots_view() { return indices(slots, {rows, k}); }
  double weight(std::int64_t row, std::int64_t j) const {
    return probabilities[row * experts + chosen[static_cast<std::size_t>(row * k + j)]];
  }

  std::int64_t rows, experts, k, kept = 0;
  Array logits, probabilities, gaps;
  std::vector<std::int32_t> chosen, slots;
};

}  // namespace

TEST_CASE("the router: softmax, and the k most probable experts; of equals, the lower") {
  Random random{81};
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t rows = random.between(1, 40), experts = random.between(1, 20),
                       k = random.between(1, experts);
    Array logits{{rows, experts}}, probabilities{{rows, experts}}, gaps{{rows}};
    // Uses few different values, so that ties are common.
    for (std::int64_t i = 0; i < logits.elements(); ++i)
      logits[i] = static_cast<float>(random.between(-3, 3));
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(rows * k));
    kernels().router_forward({}, logits, probabilities, indices(chosen, {rows, k}), gaps);
    CHECK(probabilities.untouched());
    CHECK(gaps.untouched());
    for (std::int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (std::int64_t i = 0; i < experts; ++i) sum += std::exp(double{logits[row * experts + i]});
      std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return logits[row * experts + a] > logits[row * experts + b];
      });
      for (std::int64_t i = 0; i < experts; ++i)
        CHECK(probabilities[row * experts + i] ==
              doctest::Approx(std::exp(double{logits[row * experts + i]}) / sum).epsilon(1e-5));
      for (std::int64_t j = 0; j < k; ++j)
        CHECK(chosen[static_cast<std::size_t>(row * k + j)] == order[static_cast<std::size_t>(j)]);
      const auto p = [&](std::int64_t i) {
        return probabilities[row * experts + order[static_cast<std::size_t>(i)]];
      };
      CHECK(gaps[row] == (k == experts ? 1.0F : p(k - 1) - p(k)));
    }
  }
}

TEST_CASE("the router's gradient, with the load-balance loss, matches finite differences") {
  Random random{82};
  for (int trial = 0; trial < 20; ++trial) {
    const std::int64_t rows = random.between(1, 8), experts = random.between(2, 9),
                       k = random.between(1, experts);
    Routing routing{random, rows, experts, k};
    Array dweights{{rows, k}}, balance{{experts}}, dlogits{{rows, experts}};
    dweights.randomize(random), balance.randomize(random);
    kernels().router_backward({}, routing.probabilities, routing.chosen_view(), dweights, balance,
                              dlogits);
    // The loss whose gradients are dweights and balance, as a function of one row's logits.
    const auto loss = [&](std::int64_t row, const Doubles& logits) {
      double sum = 0, value = 0;
      for (const double logit : logits) sum += std::exp(logit);
      const auto p = [&](std::int64_t i) {
        return std::exp(logits[static_cast<std::size_t>(i)]) / sum;
      };
      for (std::int64_t j = 0; j < k; ++j)
        value += dweights[row * k + j] * p(routing.chosen[static_cast<std::size_t>(row * k + j)]);
      for (std::int64_t i = 0; i < experts; ++i) value += balance[i] * p(i);
      return value;
    };
    Doubles want;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < experts; ++i) {
        Doubles at;
        for (std::int64_t c = 0; c < experts; ++c) at.push_back(routing.logits[row * experts + c]);
        Doubles above = at, below = at;
        above[static_cast<std::size_t>(i)] += 1e-5, below[static_cast<std::size_t>(i)] -= 1e-5;
        want.push_back((loss(row, above) - loss(row, below)) / 2e-5);
      }
    CHECK(error(dlogits, want) < 1e-4);
  }
}

TEST_CASE("rows are gathered, combined with their weights, and given their gradients") {
  Random random{83};
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t rows = random.between(1, 30), experts = random.between(1, 9),
                       k = random.between(1, experts), h = random.between(1, 70);
    Routing routing{random, rows, experts, k};
    const std::int64_t kept = routing.kept;

    Array x{{rows, h}}, y{{kept, h}};
    x.randomize(random);
    auto from = random_indices(random, kept, rows);
    kernels().gather_rows({}, x, indices(from, {kept}), y);
    CHECK(y.untouched());
    for (std::int64_t i = 0; i < y.elements(); ++i)
      CHECK(y[i] == x[from[static_cast<std::size_t>(i / h)] * h + i % h]);

    y.randomize(random);
    for (const bool weighted : {true, false}) {
      Array sum{{rows, h}};
      kernels().combine_rows({}, y, routing.slots_view(),
                             weighted ? routing.probabilities.view() : View{},
                             weighted ? routing.chosen_view() : View{}, sum);
      Doubles want(static_cast<std::size_t>(rows * h));
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < k; ++j) {
          const std::int32_t slot = routing.slots[static_cast<std::size_t>(row * k + j)];
          for (std::int64_t i = 0; slot >= 0 && i < h; ++i)
            want[static_cast<std::size_t>(row * h + i)] +=
                (weighted ? routing.weight(row, j) : 1.0) * y[slot * h + i];
        }
      CHECK(error(sum, want) < tolerance);
    }

    Array dx{{rows, h}}, dy{{kept, h}}, dweights{{rows, k}};
    dx.randomize(random);
    kernels().combine_rows_backward({}, dx, y, routing.slots_view(), routing.probabilities,
                                    routing.chosen_view(), dy, dweights);
    Doubles want_dy(static_cast<std::size_t>(kept * h)),
        want_dweights(static_cast<std::size_t>(rows * k));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int32_t slot = routing.slots[static_cast<std::size_t>(row * k + j)];
        for (std::int64_t i = 0; slot >= 0 && i < h; ++i) {
          want_dy[static_cast<std::size_t>(slot * h + i)] =
              routing.weight(row, j) * dx[row * h + i];
          want_dweights[static_cast<std::size_t>(row * k + j)] +=
              double{dx[row * h + i]} * y[slot * h + i];
        }
      }
    CHECK(error(dy, want_dy) < tolerance);
    CHECK(error(dweights, want_dweights) < tolerance);
  }
}

TEST_CASE("an index of no row is named, and nothing is written") {
  if (!on_cpu()) return;
  std::vector<std::int32_t> rows{0, 3};
  Array x{{3, 2}}, y{{2, 2}};
  x.set(1.0F);
  CHECK_THROWS_WITH_AS(kernels().gather_rows({}, x, indices(rows, {2}), y),
                       "gather_rows: index 3 at 1 is outside [0, 3)", std::out_of_range);
  CHECK(std::isnan(y[0]));
}
