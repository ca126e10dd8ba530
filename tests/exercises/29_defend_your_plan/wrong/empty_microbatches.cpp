// diagnosis: microbatch is 0
#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

TrainingPlan llama_70b_on_64() {
  return {.dp = 64, .microbatch = 0};
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
