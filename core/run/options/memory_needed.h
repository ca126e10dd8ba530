#pragma once

#include "core/run/options/options.h"

namespace lockstep {

/// Returns a lower bound on a run's memory, in bytes: the states of one whole model (parameters,
/// gradients and optimizer), which the ranks hold together, and which a single device holds for the
/// parity check, plus the activations of one block and the head for one microbatch. A run with
/// several copies of the model needs more. Returns a floating-point number, because the bound may
/// be too large for an integer.
double least_memory(const Options& options);

/// Throws UsageError if `available` is less than least_memory(). Does not check runs on GPUs, on
/// the meta device or on other hosts.
void check_memory(const Options& options, std::int64_t available);

}  // namespace lockstep
