/// SwiGLU and its gradient. With n elements in y, the forward pass moves 3 n elements, the backward
/// pass 5 n.
///
/// As in GELU (gelu.cu), f32 uses kernels/element.h and is bitwise identical to the CPU's, and
/// 16-bit types use the hardware's exponential and reciprocal.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/map.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

/// silu(z) and its derivative, in the precision that T needs.
template <class T>
struct Silu {
  static __device__ float sigmoid(float z) { return __fdividef(1.0F, 1.0F + __expf(-z)); }
  static __device__ float value(float z) { return z * sigmoid(z); }
  static __device__ float derivative(float z) {
    const float sigma = sigmoid(z);
    return sigma * (1.0F + z * (1.0F - sigma));
  }
};
template <>
struct Silu<float> {
  static __device__ float value(float z) { return element::silu(z); }
  static __device__ float derivative(float z) { return element::silu_derivative(z); }
};

template <class T>
struct Swiglu {
  __device__ float operator()(T gate, T up) const {
    return Silu<T>::value(widen(gate)) * widen(up);
  }
};

/// Computes a chunk of dgate and the chunk of dup beside it, which a map (map.cuh) cannot do,
/// because both need both inputs, and dx may be x.
template <class T>
__global__ void __launch_bounds__(map_threads)
    swiglu_backward_kernel(std::int64_t f, std::int64_t blocks_per_row, Rows<const T> x,
                           Rows<const T> dy, Rows<T> dx) {
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x / blocks_per_row, part = blockIdx.x % blocks_per_row;
  T* const dgate = dx.data + row * dx.stride;
  const Cut cut = Cut::chunk<size>(part * blockDim.x + threadIdx.x, dgate, f);
  const T* const gate = x.data + row * x.stride;
  const auto load = [&](const T* from) {
    return Source<T>{from, from + f}.template load<size>(cut.first, cut.count, T{});
  };
  const Chunk<T, size> gates = load(gate), ups = load(gate + f), ds = load(dy.data + row * f);
  const Chunk<T, size> dgates = rounded_chunk<T, size>([&](int i) {
    return widen(ds.at(i)) * widen(ups.at(i)) * Silu<T>::derivative(widen(gates.at(i)));
  });
  const Chunk<T, size> dups = rounded_chunk<T, size>(
      [&](int i) { return widen(ds.at(i)) * Silu<T>::value(widen(gates.at(i))); });
  store(dgate + cut.first, dgates, cut.count);
  store(dgate + f + cut.first, dups, cut.count);
}

void swiglu_forward(Queue queue, In x, Out y) {
  const arguments::Matrix n = arguments::swiglu_forward(x, y);
  want_one_type("swiglu_forward", {{"x", x}, {"y", y}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    const std::int64_t f = n.columns;
    map("swiglu_forward", queue, Swiglu<T>{}, n.rows, f, Rows<T>{data_of<T>(y), f},
        Rows<T>{data_of<T>(x), 2 * f}, Rows<T>{data_of<T>(x) + f, 2 * f});
  });
}

void swiglu_backward(Queue queue, In x, In dy, Out dx) {
  const arguments::Matrix n = arguments::swiglu_backward(x, dy, dx);
  want_one_type("swiglu_backward", {{"x", x}, {"dy", dy}, {"dx", dx}});
  if (n.rows == 0 || n.columns == 0) return;
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    const std::int64_t f = n.columns;
    // Alignment may add one chunk to the row.
    const std::int64_t chunks = groups_of(per_vector<T>, f + per_vector<T> - 1);
    const std::int64_t threads = threads_for_row(chunks, 1), blocks = groups_of(threads, chunks);
    launch({"swiglu_backward", queue, Grid{n.rows * blocks}, dim3(static_cast<unsigned>(threads))},
           swiglu_backward_kernel<T>, f, blocks, Rows<const T>{data_of<T>(x), 2 * f},
           Rows<const T>{data_of<T>(dy), f}, Rows<T>{data_of<T>(dx), 2 * f});
  });
}

}  // namespace

void set_swiglu(Kernels& kernels) {
  kernels.swiglu_forward = swiglu_forward;
  kernels.swiglu_backward = swiglu_backward;
}

}  // namespace lockstep::cuda
