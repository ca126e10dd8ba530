#include "lessons/20_when_ranks_die/goodput/failures.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

double FailureLaw::interval(double u) const {
  if (law == Law::uniform) return high - (high - low) * u;
  const double exceeded = -std::log(u);
  if (law == Law::exponential) return mean * exceeded;
  // The mean of a Weibull distribution is scale · Γ(1 + 1/shape).
  return mean / std::tgamma(1 + 1 / shape) * std::pow(exceeded, 1 / shape);
}

Failures::Failures(const FailureLaw& law, int ranks, std::uint64_t seed, std::uint32_t run)
    // Nothing else here draws random numbers, so the stream of `sampling` is free.
    : law_{law}, ranks_{ranks}, random_{seed, Purpose::sampling, run} {
  draw();
}

Failures::Failures(std::vector<Failure> given) : given_{std::move(given)}, draws_{false} {
  draw();
}

void Failures::draw() {
  if (!draws_) {
    next_ = drawn_ < given_.size() ? given_[drawn_] : Failure{};
  } else {
    // uniform() is in [0, 1), so u is in (0, 1], and its logarithm is finite.
    const double u = 1 - random_.uniform(2 * drawn_), which = random_.uniform(2 * drawn_ + 1);
    next_.time = std::min(
        never, next_.time + std::max<Microseconds>(
                                1, microseconds(std::min(law_.interval(u), seconds_of(never)))));
    next_.rank = static_cast<int>(which * ranks_);
  }
  ++drawn_;
}

Failure Failures::take() {
  const Failure taken = next_;
  draw();
  return taken;
}

}  // namespace lockstep
