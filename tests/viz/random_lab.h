#pragma once

#include <random>

namespace lockstep::testing {

using LabRandom = std::mt19937;

/// A random whole number from `least` to `most`.
inline int random_between(LabRandom& random, int least, int most) {
  return std::uniform_int_distribution{least, most}(random);
}

}  // namespace lockstep::testing
