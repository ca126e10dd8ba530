#include <cmath>

#include "exercises/01_arithmetic/task.h"

// Closed forms instead of searches.

namespace lockstep::exercises {

int least_tensor_parallel(double parameters, double bytes_per_gpu) {
  return static_cast<int>(
      std::exp2(std::max(0.0, std::ceil(std::log2(16 * parameters / bytes_per_gpu)))));
}
double bubble(int stages, int microbatches) {
  return 1 - static_cast<double>(microbatches) / (microbatches + stages - 1);
}
int fewest_microbatches(int stages, double share, bool below) {
  const double m = (stages - 1) * (1 - share) / share;
  return std::max(1, below ? static_cast<int>(std::floor(m)) + 1 : static_cast<int>(std::ceil(m)));
}
double all_reduce_seconds(int ranks, double bytes, double latency, double bandwidth) {
  const int rounds = 2 * (ranks - 1);
  return rounds * latency + rounds * (bytes / ranks) / bandwidth;
}

}  // namespace lockstep::exercises
