// diagnosis: 16 microbatches for 16 ranks
#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

TrainingPlan llama_70b_on_64() {
  return {.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1};
}

TrainingPlan llama_70b_on_256() {
  return {.dp = 64, .tp = 2, .cp = 2, .zero = 3};
}

TrainingPlan llama_405b_on_16384() {
  return {.dp = 128, .tp = 8, .pp = 16, .zero = 1, .recompute = "full"};
}

TrainingPlan llama_70b_long_sequences() {
  not_written();
}

TrainingPlan gpt_22b_on_slow_links() {
  not_written();
}

}  // namespace lockstep::exercises
