// diagnosis: the first half
#include "exercises/01_arithmetic/task.h"

namespace lockstep::exercises {

int least_tensor_parallel(double parameters, double bytes_per_gpu) {
  int ranks = 1;
  while (16 * parameters / ranks > bytes_per_gpu) ranks *= 2;
  return ranks;
}

double bubble(int stages, int microbatches) {
  return (stages - 1.0) / (microbatches + stages - 1.0);
}

int fewest_microbatches(int stages, double share, bool below) {
  int microbatches = 1;
  while (below ? bubble(stages, microbatches) >= share : bubble(stages, microbatches) > share)
    ++microbatches;
  return microbatches;
}

double all_reduce_seconds(int ranks, double bytes, double latency, double bandwidth) {
  return (ranks - 1) * (latency + bytes / ranks / bandwidth);
}

}  // namespace lockstep::exercises