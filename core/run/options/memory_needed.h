#pragma once

#include "core/run/options/options.h"

namespace lockstep {

/// The least memory that a run takes, in bytes: the states of one whole model (parameters,
/// gradients and optimizer), which the ranks hold together and one device holds for parity, and
/// the activations of one block and the head for one microbatch. A run whose ranks hold copies
/// takes more. As a floating-point number, because it may be too large for an integer.
double least_memory(const Options& options);

/// Throws UsageError if this machine lacks that memory. Does not check ranks on GPUs, the meta
/// device or other hosts.
void check_memory(const Options& options, std::int64_t available);

}  // namespace lockstep
