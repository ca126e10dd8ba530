#pragma once

/// Layer normalisation and RMSNorm with one block per row; the block keeps its row in registers.
///
/// A block has the smallest number of warps that can hold the row with four 16-byte chunks per
/// thread. A short row needs only one warp, so many blocks fit on a multiprocessor and overlap
/// their loads. With the most threads, a row of 8,192 f32 elements fits; each pass reads the rest
/// of a longer row again, mostly from the L2 cache.

#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/reduce.cuh"

namespace lockstep::cuda {

/// RMSNorm is layer normalisation without a mean and a bias: both count as 0.
enum class Norm { layer, rms };

inline constexpr int kept = 4;            ///< chunks that a thread keeps in registers
inline constexpr int most_threads = 512;  ///< per block

/// The part of a row that belongs to one thread: chunk threadIdx.x and every blockDim.x-th chunk
/// after that.
template <class T, bool whole>
class RowPart {
 public:
  static constexpr int size = per_vector<T>;

  __device__ RowPart(const T* row, int columns) : source_{row, row + columns}, columns_(columns) {
#pragma unroll
    for (int k = 0; k < kept; ++k) chunks_[k] = load(k);
  }
  /// Holds the sum of rows a and b, with each element rounded to T, and also writes it to `sum`.
  /// `sum` may be a or b.
  __device__ RowPart(const T* a, const T* b, T* sum, int columns)
      : source_{sum, sum + columns}, columns_(columns) {
    const Source<T, whole> left{a, a + columns}, right{b, b + columns};
    const auto add = [&](int k) {
      const Chunk<T, size> one = left.template load<size>(first(k), count(k), T{});
      const Chunk<T, size> other = right.template load<size>(first(k), count(k), T{});
      const Chunk<T, size> added =
          rounded_chunk<T, size>([&](int i) { return widen(one.at(i)) + widen(other.at(i)); });
      store<whole>(sum + first(k), added, count(k));
      return added;
    };
#pragma unroll
    for (int k = 0; k < kept; ++k) chunks_[k] = add(k);
    for (int k = kept; first(k) < columns_; ++k) add(k);
  }

  /// Calls visit(first column, count, chunk) for each chunk.
  template <class Visit>
  __device__ void each(Visit visit) const {
#pragma unroll
    for (int k = 0; k < kept; ++k)
      if (count(k) > 0) visit(first(k), count(k), chunks_[k]);
    for (int k = kept; first(k) < columns_; ++k) visit(first(k), count(k), load(k));
  }

  /// Calls visit(first column, count, chunk, the other row's chunk) for each chunk.
  template <class Visit>
  __device__ void each_with(const RowPart& other, Visit visit) const {
#pragma unroll
    for (int k = 0; k < kept; ++k)
      if (count(k) > 0) visit(first(k), count(k), chunks_[k], other.chunks_[k]);
    for (int k = kept; first(k) < columns_; ++k) visit(first(k), count(k), load(k), other.load(k));
  }

 private:
  __device__ Chunk<T, size> load(int k) const {
    return source_.template load<size>(first(k), count(k), T{});
  }
  __device__ int first(int k) const {
    return (k * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * size;
  }
  __device__ int count(int k) const {
    const int left = columns_ - first(k);
    return left >= size ? size : (left > 0 ? left : 0);
  }

  Source<T, whole> source_;
  int columns_;
  Chunk<T, size> chunks_[kept];
};

/// Loads one chunk's columns of gain or bias.
template <bool whole, class T>
__device__ Chunk<T, per_vector<T>> columns_of(const T* of, int columns, int first, int count) {
  return Source<T, whole>{of, of + columns}.template load<per_vector<T>>(first, count, T{});
}

/// Returns the number of threads per block for rows of h elements; see the top of the file.
template <class T>
dim3 threads_for(std::int64_t h) {
  const std::int64_t warp_keeps = 32 * kept * per_vector<T>;
  if (h <= warp_keeps) return 32;
  if (h <= 2 * warp_keeps) return 64;
  if (h <= 4 * warp_keeps) return 128;
  return most_threads;
}

}  // namespace lockstep::cuda
