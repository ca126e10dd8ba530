#pragma once

#include <random>

namespace lockstep::testing {

/// Draws integers from a fixed seed.
struct RandomIntegers {
  explicit RandomIntegers(unsigned seed) : engine(seed) {}
  /// Returns an integer in [0, n).
  int below(int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); }

  std::mt19937 engine;
};

}  // namespace lockstep::testing
