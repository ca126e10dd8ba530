#pragma once

/// Replaces the parts of CUDA's header of the same name that kernels use.

#include "emulator/device.h"
#include "kernels/element.h"

struct __half {
  unsigned short bits;
};
inline __half __float2half_rn(float x) {
  return {lockstep::element::to_f16(x)};
}
inline float __half2float(__half x) {
  return lockstep::element::from_f16(x.bits);
}
inline unsigned short __half_as_ushort(__half x) {
  return x.bits;
}
inline __half __ushort_as_half(unsigned short bits) {
  return {bits};
}
