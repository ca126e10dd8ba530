// The formulas, compared with published values and with the model that they summarize, solved by
// other means.

#include <doctest/doctest.h>

#include <cmath>

#include "lessons/20_when_ranks_die/goodput/goodput.h"

using namespace lockstep;

namespace {

/// Expected time to complete a segment of `work` seconds, by brute force: the time is cut into
/// slices of `slice` seconds, each of which fails with probability p; a failure leads to a recovery
/// of `restart` seconds, which starts again if a slice of it fails. Solves the linear equations of
/// this Markov chain from the last slice to the first: E_i = slice + (1-p) E_{i+1} + p recovery.
double by_markov_chain(double mtbf, double work, double restart, double slice) {
  const double p = slice / mtbf;
  // Each state is a + b x, where x is the time from the beginning of the segment.
  const auto chain = [&](double length, double end_a, double end_b, double fail_a, double fail_b) {
    double a = end_a, b = end_b;
    const auto slices = static_cast<int>(std::lround(length / slice));
    for (int i = 0; i < slices; ++i) {
      a = slice + (1 - p) * a + p * fail_a;
      b = (1 - p) * b + p * fail_b;
    }
    return std::pair{a, b};
  };
  // A recovery y = c + d y + (share that gets through) x.
  const double through = std::pow(1 - p, std::lround(restart / slice));
  const double spent = chain(restart, 0, 0, 0, 0).first;
  // y = spent + (1 - through) y + through x
  const double recovery = spent / through;  // y = recovery + x
  const auto [a, b] = chain(work, 0, 0, recovery, 1);
  return a / (1 - b);
}

}  // namespace

TEST_CASE("the best interval is that of Daly's figures 3 to 5") {
  // Daly 2006, figures 3 to 5: δ = 5 min, R = 10 min, and M = 24 h, 6 h and 15 min give 117, 57 and
  // 9.1 min.
  const auto minutes = [](double mtbf) {
    return RestartModel{.mtbf = mtbf, .checkpoint = 5, .restart = 10}.daly();
  };
  CHECK(std::lround(minutes(24 * 60)) == 117);
  CHECK(std::lround(minutes(6 * 60)) == 57);
  CHECK(std::lround(10 * minutes(15)) == 91);
  // Young 1974: √(2 · 5 · 1440) = 120.
  CHECK(RestartModel{.mtbf = 1440, .checkpoint = 5}.young() == doctest::Approx(120));
}

TEST_CASE("the expected time is that of a Markov chain") {
  for (const auto& [mtbf, work, restart] : {std::tuple{1000.0, 100.0, 50.0},
                                            {1000.0, 2000.0, 50.0},
                                            {300.0, 100.0, 600.0},
                                            {5000.0, 1200.0, 0.0}}) {
    const RestartModel model{.mtbf = mtbf, .checkpoint = 0, .restart = restart};
    // The error is of first order in the slice; extrapolate to slices of length 0.
    const double coarse = by_markov_chain(mtbf, work, restart, 0.5);
    const double fine = by_markov_chain(mtbf, work, restart, 0.25);
    CAPTURE(mtbf);
    CHECK(model.expected(work) == doctest::Approx(2 * fine - coarse).epsilon(1e-5));
  }
}

TEST_CASE("the best number of steps is found, and Daly's series is close to it") {
  for (const double mtbf : {300.0, 3000.0, 11136.0, 1e6})
    for (const double checkpoint : {0.5, 10.0, 60.0, 500.0})
      for (const double step : {0.3, 6.0, 40.0}) {
        const RestartModel model{.mtbf = mtbf, .checkpoint = checkpoint, .restart = 100};
        std::int64_t best = 1;
        const auto goodput = [&](std::int64_t steps) {
          return model.goodput(static_cast<double>(steps) * step);
        };
        // The goodput has one maximum.
        while (goodput(best + 1) > goodput(best)) ++best;
        CAPTURE(mtbf);
        CAPTURE(checkpoint);
        CAPTURE(step);
        CHECK(model.best_steps(step) == best);
        // Daly's interval loses less than a thousandth if δ < M/2, and whole steps are fine enough.
        if (checkpoint < mtbf / 2 && best > 20)
          CHECK(model.goodput(model.daly()) > 0.999 * goodput(best));
      }
}

TEST_CASE("the first order is the limit for rare failures") {
  for (const double mtbf : {1e6, 1e7, 1e8}) {
    const RestartModel model{.mtbf = mtbf, .checkpoint = 1, .restart = 600};
    const double interval = model.young();
    const double waste = 1 - model.goodput(interval);
    CHECK(std::abs(1 - model.first_order(interval) - waste) < 2 * waste * waste);
    // Nothing else is as good to first order.
    CHECK(model.first_order(interval) >= model.first_order(0.9 * interval));
    CHECK(model.first_order(interval) >= model.first_order(1.1 * interval));
  }
}

TEST_CASE("the affordable checkpoint leaves exactly the share") {
  for (const double restart : {0.0, 60.0, 600.0, 900.0}) {
    RestartModel model{.mtbf = 10012, .restart = restart};
    model.checkpoint = model.affordable_checkpoint(0.9);
    CHECK(model.checkpoint > 0);
    CHECK(model.goodput(model.daly()) == doctest::Approx(0.9).epsilon(1e-9));
  }
  // e^{-R/M} is the goodput with free checkpoints; R = M ln(1/0.9) is the longest restart.
  const double longest = 10012 * std::log(1 / 0.9);
  CHECK(RestartModel{.mtbf = 10012, .restart = 0.99 * longest}.affordable_checkpoint(0.9) > 0);
  CHECK(RestartModel{.mtbf = 10012, .restart = 1.01 * longest}.affordable_checkpoint(0.9) < 0);
}
