#pragma once

/// What one core of this machine can do at most, as the yardstick of everything that computes: a
/// ratio to a library's routine says nothing if the routine itself is slow.

#include <string>

#include "kernels/view.h"

namespace lockstep::bench {

/// Returns the processor's model, as the system names it.
std::string processor_model();

/// Measures the FLOP/s of one core in the widest fused multiply-add that it has: f32, or bf16 with
/// f32 sums. Operands stay in registers. Returns 0 if the processor has no such instruction. The
/// environment variable ONEDNN_MAX_CPU_ISA=AVX2 limits oneDNN to AVX2, and this function as well.
double peak_flops(DType dtype);

/// Returns the seconds that the calling thread has computed.
double thread_seconds_now();

/// Returns the seconds that the calling thread computes in `work`, which, unlike the time that
/// passes, does not grow when other processes take turns on the core.
template <class Work>
double thread_seconds_of(Work&& work) {
  const double start = thread_seconds_now();
  work();
  return thread_seconds_now() - start;
}

}  // namespace lockstep::bench
