#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// One rank's part of the model. Rank r is stage r of the pipeline.
struct Stage {
  int width = 0;
  std::vector<float> table;  ///< a row of `width` numbers per token; empty except on the first and
                             ///< on the last rank, which have equal copies
  float weight = 0;          ///< each stage multiplies by its weight
};

/// One training step of the whole model, which is
///
///   x = table[token] · w_0 · w_1 · ... · w_(N-1),     score_v = <table[v], x> for each token v,
///   loss = 1/2 · the sum over v of (score_v - (1 if v is the target, else 0))².
///
/// Subtracts 0.1 times the gradient of the loss from every parameter. The table is *one* parameter,
/// wherever its copies are, and both copies must be bitwise equal afterwards. For that, the first
/// and the last rank may each send as many numbers as the table has, once per step.
///
/// Called on every rank with the same tokens. With one rank, that rank is both first and last. A
/// forward pass takes 1 µs on each rank, and a backward pass 2 µs.
void train_step(World& world, Stage& stage, int token, int target);

}  // namespace lockstep::exercises
