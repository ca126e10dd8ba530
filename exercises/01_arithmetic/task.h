#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// The arithmetic that decides how a large model is divided. A GPU's memory is given in bytes:
/// 80 GB is 80e9 bytes.

/// Returns the smallest number of tensor-parallel ranks, a power of two, that can train a model
/// with AdamW in mixed precision. Nothing else divides the model, and activations are not counted.
/// Each parameter then takes 16 bytes: 2 for the 16-bit weight, 2 for its gradient, and 12 for the
/// f32 master copy and AdamW's two moments.
int least_tensor_parallel(double parameters, double bytes_per_gpu);

/// Returns the bubble of a pipeline of p stages with m microbatches: the share of the step in which
/// a rank is idle. All stages take equally long, and messages take no time. (This holds for GPipe
/// and 1F1B.)
double bubble(int stages, int microbatches);

/// Returns the smallest number of microbatches for which that bubble is at most `share`, or, if
/// `below`, less than `share`.
int fewest_microbatches(int stages, double share, bool below);

/// Returns the time in seconds of a ring all-reduce of n bytes over N ranks. A message of b bytes
/// takes latency + b / bandwidth seconds. N divides n.
double all_reduce_seconds(int ranks, double bytes, double latency, double bandwidth);

}  // namespace lockstep::exercises
