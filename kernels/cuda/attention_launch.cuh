#pragma once

/// Selects, for sizes known only at run time, the kernel that was compiled for those sizes.

#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

namespace lockstep::cuda {

/// Calls body.template operator()<D>(), with D the padded column count of a head of size d in
/// shared memory: the next of 32, 64, 96 and 128.
template <class Body>
void for_head(int d, const Body& body) {
  if (d <= 32)
    body.template operator()<32>();
  else if (d <= 64)
    body.template operator()<64>();
  else if (d <= 96)
    body.template operator()<96>();
  else
    body.template operator()<widest_head>();
}

/// Like for_head, but also passes the element type as the first template argument.
template <class Body>
void for_narrow_head(DType dtype, int d, const Body& body) {
  for_head(d, [&]<int D>() {
    if (dtype == DType::bf16)
      body.template operator()<Bf16, D>();
    else
      body.template operator()<F16, D>();
  });
}

}  // namespace lockstep::cuda
