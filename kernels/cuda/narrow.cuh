#pragma once

/// Storage types of elements, and their conversions to and from f32. The GPU's conversions round as
/// kernels/element.h does, to nearest with ties to even; only NaN payloads may differ.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/view.h"

namespace lockstep::cuda {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

__device__ __forceinline__ float widen(float x) {
  return x;
}
__device__ __forceinline__ float widen(Bf16 x) {
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
}
__device__ __forceinline__ float widen(F16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

__device__ __forceinline__ void narrow(float x, float& to) {
  to = x;
}
__device__ __forceinline__ void narrow(float x, Bf16& to) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ void narrow(float x, F16& to) {
  to.bits = __half_as_ushort(__float2half_rn(x));
}

/// Rounds an f32 to T.
template <class T>
__device__ __forceinline__ T rounded(float x) {
  T result;
  narrow(x, result);
  return result;
}

/// Calls visit with a null pointer of the type that stores `dtype` (floating-point). This turns a
/// View's dtype into a template argument.
template <class Visit>
void with_type_of(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::bf16:
      return visit(static_cast<Bf16*>(nullptr));
    case DType::f16:
      return visit(static_cast<F16*>(nullptr));
    default:
      return visit(static_cast<float*>(nullptr));
  }
}
/// The element type of the null pointer that with_type_of passes.
template <class Pointer>
using Pointee = std::remove_pointer_t<Pointer>;

template <class T>
T* data_of(const View& view) {
  return static_cast<T*>(view.data);
}

}  // namespace lockstep::cuda
