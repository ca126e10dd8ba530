/// GELU and its derivative, elementwise (map.cuh). The forward pass moves 2 n elements, the
/// backward pass 3 n.
///
/// For f32, the kernels use kernels/element.h, and results are bitwise identical to the CPU's,
/// because this file is compiled without fused multiply-adds, which would omit a rounding. The f32
/// form takes about fifty instructions per element, which a GPU can hide while it moves 8 or 12
/// bytes per element, but not while it moves 4 or 6. 16-bit types therefore use the logistic form,
/// 0.5 (1 + tanh u) = 1 / (1 + e^-2u), with the hardware's exponential and reciprocal. The relative
/// error of this form is about 1e-6, even for tiny results. This error is far below the rounding
/// error of 16-bit types.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/map.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

/// The gate 0.5 (1 + tanh u), u = √(2/π) (x + 0.044715 x³), and the slope du/dx.
struct Gate {
  float open;
  float slope;
};

__device__ __forceinline__ Gate gate(float x) {
  const float square = x * x;
  const float inner = x * (1.0F + element::gelu_cubic * square);
  constexpr float factor = -2.0F * element::gelu_slope * element::log2_e;
  return {__fdividef(1.0F, 1.0F + ptx::exp2_approximate(factor * inner)),
          element::gelu_slope * (1.0F + 3.0F * element::gelu_cubic * square)};
}

template <class T>
struct Gelu {
  __device__ float operator()(T x) const {
    const float wide = widen(x);
    return wide * gate(wide).open;
  }
};
template <>
struct Gelu<float> {
  __device__ float operator()(float x) const { return element::gelu(x); }
};

template <class T>
struct GeluBackward {
  __device__ float operator()(T x, T dy) const {
    const float wide = widen(x);
    const Gate g = gate(wide);
    // 0.5 (1 - tanh²) is 2 open (1 - open).
    const float derivative = g.open + 2.0F * wide * (g.open * (1.0F - g.open) * g.slope);
    return widen(dy) * derivative;
  }
};
template <>
struct GeluBackward<float> {
  __device__ float operator()(float x, float dy) const { return dy * element::gelu_derivative(x); }
};

void gelu_forward(Queue queue, In x, Out y) {
  const std::int64_t n = arguments::gelu_forward(x, y);
  want_one_type("gelu_forward", {{"x", x}, {"y", y}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    map("gelu_forward", queue, Gelu<T>{}, n, data_of<T>(y), data_of<T>(x));
  });
}

void gelu_backward(Queue queue, In x, In dy, Out dx) {
  const std::int64_t n = arguments::gelu_backward(x, dy, dx);
  want_one_type("gelu_backward", {{"x", x}, {"dy", dy}, {"dx", dx}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    map("gelu_backward", queue, GeluBackward<T>{}, n, data_of<T>(dx), data_of<T>(x),
        data_of<T>(dy));
  });
}

}  // namespace

void set_gelu(Kernels& kernels) {
  kernels.gelu_forward = gelu_forward;
  kernels.gelu_backward = gelu_backward;
}

}  // namespace lockstep::cuda
