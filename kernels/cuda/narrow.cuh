#pragma once

/// What elements are stored in, and the ways to f32 and back. The GPU's own conversions round as
/// kernels/element.h does, to the nearest and of two to the even one; only which NaN a NaN becomes
/// may differ.

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

/// f32 rounded to what T stores.
template <class T>
__device__ __forceinline__ T rounded(float x) {
  T result;
  narrow(x, result);
  return result;
}

/// Calls visit with a null pointer of the type that stores `dtype`, a floating one: from the type
/// that a View names to the one that a template is made for.
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
/// The type whose null pointer with_type_of passes.
template <class Pointer>
using Pointee = std::remove_pointer_t<Pointer>;

template <class T>
T* data_of(const View& view) {
  return static_cast<T*>(view.data);
}

}  // namespace lockstep::cuda
