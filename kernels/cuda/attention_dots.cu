/// Computes dots (b, heads, s) = Σ dy * y over a head's columns, which the backward pass of softmax
/// subtracts from every dP of a row. Σ_j P_ij dP_ij has the same value, but it sums s elements from
/// several tiles instead of d elements.
///
/// A few lanes share each row of a head, with 8 columns per lane (16 bytes of bf16 at once), and
/// add their sums pairwise. For each element of y, the kernel reads 2 elements and does 2 FLOPs, so
/// it is memory-bound.

#include "kernels/cuda/attention_launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int dot_threads = 256;

/// Eight elements, read in one or two loads if they are aligned.
template <class T>
struct alignas(16) Eight {
  T elements[8];
};

template <class T, int D>
__global__ void __launch_bounds__(dot_threads)
    dots_of_rows(Problem n, Strided<const T> dy, Strided<const T> y, float* dots) {
  constexpr int lanes = D <= 32 ? 4 : D <= 64 ? 8 : 16;  // lanes per row
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (dot_threads / lanes) +
                           static_cast<int>(threadIdx.x) / lanes;
  const int column = static_cast<int>(threadIdx.x) % lanes * 8;
  float sum = 0.0F;
  if (row < static_cast<std::int64_t>(n.matrices) * n.s && column < n.d) {
    const int matrix = static_cast<int>(row / n.s), position = static_cast<int>(row % n.s);
    const T* const a = dy.matrix(n, matrix).row(position) + column;
    const T* const b = y.matrix(n, matrix).row(position) + column;
    Eight<T> left{}, right{};
    if (n.vectors) {
      left = *reinterpret_cast<const Eight<T>*>(a);
      right = *reinterpret_cast<const Eight<T>*>(b);
    } else {
      for (int e = 0; e < 8 && column + e < n.d; ++e) {
        left.elements[e] = a[e];
        right.elements[e] = b[e];
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) sum = fmaf(widen(left.elements[e]), widen(right.elements[e]), sum);
  }
#pragma unroll
  for (int other = lanes / 2; other > 0; other /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, other);
  if (column == 0 && row < static_cast<std::int64_t>(n.matrices) * n.s) dots[row] = sum;
}

}  // namespace

void attention_dots(Queue queue, const Problem& n, View dy, View y, float* dots) {
  const auto enqueue = [&]<class T, int D>() {
    constexpr int rows = dot_threads / (D <= 32 ? 4 : D <= 64 ? 8 : 16);
    const std::int64_t blocks = groups_of(rows, static_cast<std::int64_t>(n.matrices) * n.s);
    launch({"attention_backward (dots)", queue, Grid{blocks}, dim3(dot_threads)},
           dots_of_rows<T, D>, n, Strided<const T>{dy}, Strided<const T>{y}, dots);
  };
  if (dy.dtype == DType::f32)
    for_head(n.d, [&]<int D>() { enqueue.template operator()<float, D>(); });
  else
    for_narrow_head(dy.dtype, n.d, enqueue);
}

}  // namespace lockstep::cuda
