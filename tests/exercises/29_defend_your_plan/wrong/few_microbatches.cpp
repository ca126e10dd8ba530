// diagnosis: (p - 1) / (m + p - 1)
#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

TrainingPlan llama_70b_on_64() {
  return {.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1};
}

TrainingPlan llama_70b_on_256() {
  // The plan of the first case, with more replicas.
  return {.dp = 16, .tp = 4, .pp = 2, .cp = 2, .zero = 1};
}

TrainingPlan llama_405b_on_16384() {
  not_written();
}

TrainingPlan llama_70b_long_sequences() {
  not_written();
}

TrainingPlan gpt_22b_on_slow_links() {
  not_written();
}

}  // namespace lockstep::exercises
