#include "core/time/rates.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

/// A size's place among the measured ones: between `below` and the one after it.
struct Between {
  std::size_t below = 0;
  double share = 0;  ///< of the step from `below` to the next size, in logarithms
};

Between place_of(std::int64_t size, const std::vector<std::int64_t>& sizes) {
  const auto above = std::ranges::upper_bound(sizes, size);
  if (above == sizes.begin()) return {0, 0};
  const auto below = static_cast<std::size_t>(above - sizes.begin()) - 1;
  if (above == sizes.end()) return {below, 0};
  const double from = std::log(sizes[below]);
  return {below, (std::log(size) - from) / (std::log(*above) - from)};
}

}  // namespace

double RateTable::at(const Cost& cost) const {
  const Between at[] = {place_of(cost.m, m), place_of(cost.n, n), place_of(cost.k, k)};
  double logarithm = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {  // of the box around the shape
    double weight = 1;
    std::size_t index[3];
    for (unsigned axis = 0; axis < 3; ++axis) {
      const bool above = (corner >> axis & 1) != 0;
      weight *= above ? at[axis].share : 1 - at[axis].share;
      index[axis] = at[axis].below + (above ? 1 : 0);
    }
    if (weight > 0)
      logarithm += weight * std::log(flops[(index[0] * n.size() + index[1]) * k.size() + index[2]]);
  }
  return std::exp(logarithm);
}

}  // namespace lockstep
