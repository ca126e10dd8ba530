// diagnosis: does not fit into f32 here
#include "exercises/19_online_softmax/task.h"

#include <cmath>

namespace lockstep::exercises {

void merge(std::span<float> y, float& lse, std::span<const float> y_part, float lse_part) {
  const float none = -std::numeric_limits<float>::infinity();
  if (lse_part == none) return;
  if (lse == none) {
    std::ranges::copy(y_part, y.begin());
    lse = lse_part;
    return;
  }
  const float both = lse + std::log(1 + std::exp(lse_part - lse));
  const float mine = std::exp(lse - both), theirs = std::exp(lse_part - both);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = mine * y[i] + theirs * y_part[i];
  lse = both;
}

}  // namespace lockstep::exercises
