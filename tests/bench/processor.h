#pragma once

/// The peak rate of one core of this machine, against which all computation is measured. (A
/// comparison with a library's routine would mean little if that routine were itself slow.)

#include <string>

#include "kernels/view.h"

namespace lockstep::bench {

/// Returns the system's name for the processor's model.
std::string processor_model();

/// Measures the FLOP/s of one core with its widest fused multiply-add instruction: f32, or bf16
/// with f32 sums. Operands stay in registers. Returns 0 if the processor has no such instruction.
/// The environment variable ONEDNN_MAX_CPU_ISA=AVX2 limits both oneDNN and this function to AVX2.
double peak_flops(DType dtype);

/// Returns the CPU time of the calling thread so far, in seconds.
double thread_seconds_now();

/// Returns the CPU time that the calling thread spends in `work`, in seconds. Unlike wall-clock
/// time, CPU time does not grow if other processes share the core.
template <class Work>
double thread_seconds_of(Work&& work) {
  const double start = thread_seconds_now();
  work();
  return thread_seconds_now() - start;
}

}  // namespace lockstep::bench
