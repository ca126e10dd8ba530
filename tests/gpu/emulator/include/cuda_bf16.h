#pragma once

/// Replaces the parts of CUDA's header of the same name that kernels use.

#include "emulator/device.h"
#include "kernels/element.h"

struct __nv_bfloat16 {
  unsigned short bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return {lockstep::element::to_bf16(x)};
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return lockstep::element::from_bf16(x.bits);
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
  return x.bits;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return {bits};
}
