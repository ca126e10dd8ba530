#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

// Replace each not_written() by a plan. Members that you leave out keep their defaults in task.h:
//
//   return {.dp = 2, .tp = 8, .pp = 4, .zero = 1, .schedule = "interleaved", .chunks = 5};
//
// One case at a time is fine: the check begins with the first.

TrainingPlan llama_70b_on_64() {
  not_written();
}

TrainingPlan llama_70b_on_256() {
  not_written();
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
