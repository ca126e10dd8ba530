// diagnosis: This is the mean of the two
#include "exercises/19_online_softmax/task.h"

namespace lockstep::exercises {

void merge(std::span<float> y, float& lse, std::span<const float> y_part, float lse_part) {
  const float larger = std::max(lse, lse_part);
  if (larger == -std::numeric_limits<float>::infinity()) return;  // neither set has a key
  const float both = larger + std::log(std::exp(lse - larger) + std::exp(lse_part - larger));
  const float mine = 0.5F, theirs = 0.5F;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = mine * y[i] + theirs * y_part[i];
  lse = both;
}

}  // namespace lockstep::exercises
