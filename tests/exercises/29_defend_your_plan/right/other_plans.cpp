#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

TrainingPlan llama_70b_on_64() {
  return {.dp = 64, .zero = 3, .recompute = "full"};
}

TrainingPlan llama_70b_on_256() {
  return {.dp = 8, .tp = 4, .pp = 4, .cp = 2, .zero = 1, .schedule = "zb-v", .chunks = 2};
}

TrainingPlan llama_405b_on_16384() {
  return {.dp = 64, .tp = 8, .pp = 16, .cp = 2, .zero = 1};
}

TrainingPlan llama_70b_long_sequences() {
  return {.dp = 2, .tp = 4, .pp = 2, .cp = 16, .zero = 1};
}

TrainingPlan gpt_22b_on_slow_links() {
  return {.dp = 4,
          .tp = 2,
          .pp = 4,
          .zero = 1,
          .microbatch = 2,
          .schedule = "interleaved",
          .chunks = 4};
}

}  // namespace lockstep::exercises
