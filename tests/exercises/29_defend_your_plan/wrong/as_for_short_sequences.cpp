// diagnosis: TP and CP divide them
#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

TrainingPlan llama_70b_on_64() {
  return {.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1};
}

TrainingPlan llama_70b_on_256() {
  return {.dp = 64, .tp = 2, .cp = 2, .zero = 3};
}

TrainingPlan llama_405b_on_16384() {
  return {.dp = 256,
          .tp = 4,
          .pp = 8,
          .cp = 2,
          .zero = 1,
          .schedule = "interleaved",
          .chunks = 9,
          .recompute = "full"};
}

TrainingPlan llama_70b_long_sequences() {
  // The plan of the second case.
  return {.dp = 64, .tp = 2, .cp = 2, .zero = 3};
}

TrainingPlan gpt_22b_on_slow_links() {
  not_written();
}

}  // namespace lockstep::exercises
