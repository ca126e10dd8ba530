#include "exercises/29_defend_your_plan/task.h"

namespace lockstep::exercises {

TrainingPlan llama_70b_on_64() {
  // Memory. With TP · PP = 8 and ZeRO-1, a rank holds 48 GB of the states of 70.6 billion
  // parameters: 2 + 2 bytes per parameter are divided among 8 ranks, and 12 among 64. The
  // activations of two microbatches in flight fit into the other 32 GB without full recomputation
  // if TP · CP = 8 ranks share them. TP 8 would do so, too, but exposes more than twice as much
  // communication as TP 4.
  return {.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1};
}

TrainingPlan llama_70b_on_256() {
  // Few sequences: a pipeline would have too few microbatches to fill. Without one, ZeRO-3 divides
  // the states, and because four GPUs share a sequence, each is busy long enough to hide the
  // gathers.
  return {.dp = 64, .tp = 2, .cp = 2, .zero = 3};
}

TrainingPlan llama_405b_on_16384() {
  // Scale: there are 8 GPUs for each sequence. With ZeRO-3 and TP 8, each rank would compute one
  // microbatch per step, too little to hide the gathers of 405 billion parameters. So a pipeline
  // divides them. 8 microbatches are few for its 8 ranks, but 9 chunks per rank make the bubble
  // small. They keep so many activations that only full recomputation fits.
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
  // Activations: 8 times as many per sequence as in the second case, so 8 times as many ranks share
  // a sequence. CP hides its messages behind attention, whose work grows with the square of the
  // sequence; TP does not.
  return {.dp = 8, .tp = 4, .cp = 8, .zero = 3};
}

TrainingPlan gpt_22b_on_slow_links() {
  // Bytes between nodes. DP 8 fills a node, so gradients stay within it, and only the pipeline's
  // messages, the activations at the ends of a stage, leave it. With ZB-V, 16 microbatches nearly
  // fill the pipeline.
  return {.dp = 8, .pp = 4, .zero = 1, .microbatch = 2, .schedule = "zb-v", .chunks = 2};
}

}  // namespace lockstep::exercises
