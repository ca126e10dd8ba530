#pragma once

/// 16-byte loads and stores at any address. 16 bytes is the most that a thread can move with one
/// instruction.
///
/// A view may begin at any multiple of its element size, and an odd number of columns (50257
/// logits) leaves nearly every row unaligned. Reading such a row element by element would take four
/// or eight times as many instructions. Instead, a thread reads the two aligned 16-byte words that
/// contain its 16 bytes, and extracts those bytes by shifting. This doubles the number of loads,
/// but the second load hits in the L1 cache, because a neighbouring thread has fetched that word.
/// Each word is still read from memory only once. As a result, neither the assignment of elements
/// to threads nor the order of a sum depends on alignment.

#include <cstdint>
#include <cstring>

#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {

inline constexpr int vector_bytes = 16;

/// The number of elements in 16 bytes.
template <class T>
inline constexpr int per_vector = vector_bytes / static_cast<int>(sizeof(T));

/// Holds `size` elements in a thread's registers.
template <class T, int size>
struct Chunk {
  T at[size];
};

template <class T>
__device__ __forceinline__ int bytes_past_vector(const T* at) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(at) % vector_bytes);
}

/// Extracts 16 bytes at offset `bytes` from two adjacent aligned words.
__device__ __forceinline__ uint4 shifted(uint4 low, uint4 high, int bytes) {
  unsigned word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) word[i] = (bytes & 8) != 0 ? word[i + 2] : word[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) word[i] = (bytes & 4) != 0 ? word[i + 1] : word[i];
  const unsigned bits = (static_cast<unsigned>(bytes) & 3U) * 8U;
  return {__funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
          __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits)};
}

/// An input range: a row or a whole array. Loads never read outside [begin, end).
template <class T>
struct Source {
  const T* begin;
  const T* end;

  /// Loads elements [first, first + count), 0 <= count <= size, and fills the rest with `other`.
  template <int size>
  __device__ __forceinline__ Chunk<T, size> load(std::int64_t first, int count, T other) const {
    Chunk<T, size> chunk;
    constexpr int bytes = size * static_cast<int>(sizeof(T));
    static_assert(bytes == 8 || bytes % vector_bytes == 0);
    const T* const from = begin + first;
    if constexpr (bytes == 8) {
      if (count == size && bytes_past_vector(from) % 8 == 0) {
        const uint2 all = *reinterpret_cast<const uint2*>(from);
        memcpy(&chunk, &all, sizeof all);
        return chunk;
      }
    } else {
      const int past = bytes_past_vector(from);
      if (count == size && past == 0) {
        const auto* const vectors = reinterpret_cast<const uint4*>(from);
#pragma unroll
        for (int v = 0; v < bytes / vector_bytes; ++v) put(chunk, v, vectors[v]);
        return chunk;
      }
      const T* const low = from - past / static_cast<int>(sizeof(T));
      if (count == size && low >= begin && low + size + per_vector<T> <= end) {
        const auto* const vectors = reinterpret_cast<const uint4*>(low);
#pragma unroll
        for (int v = 0; v < bytes / vector_bytes; ++v)
          put(chunk, v, shifted(vectors[v], vectors[v + 1], past));
        return chunk;
      }
    }
#pragma unroll
    for (int i = 0; i < size; ++i) chunk.at[i] = i < count ? from[i] : other;
    return chunk;
  }

 private:
  template <int size>
  static __device__ __forceinline__ void put(Chunk<T, size>& chunk, int v, uint4 vector) {
    memcpy(&chunk.at[v * per_vector<T>], &vector, vector_bytes);
  }
};

/// Rows of elements; `stride` is in elements.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ Source<std::remove_const_t<T>> row(std::int64_t i, std::int64_t columns) const {
    return {data + i * stride, data + i * stride + columns};
  }
};

template <class T>
Rows<T> rows_of(const View& view) {
  return {data_of<T>(view), view.row_stride};
}

/// Writes the first `count` elements of a chunk, with one instruction if the chunk is full and the
/// address aligned.
template <class T, int size>
__device__ __forceinline__ void store(T* to, const Chunk<T, size>& chunk, int count) {
  constexpr int bytes = size * static_cast<int>(sizeof(T));
  if constexpr (bytes == 8) {
    if (count == size && bytes_past_vector(to) % 8 == 0) {
      uint2 all;
      memcpy(&all, &chunk, sizeof all);
      *reinterpret_cast<uint2*>(to) = all;
      return;
    }
  } else {
    if (count == size && bytes_past_vector(to) == 0) {
#pragma unroll
      for (int v = 0; v < bytes / vector_bytes; ++v) {
        uint4 vector;
        memcpy(&vector, &chunk.at[v * per_vector<T>], vector_bytes);
        reinterpret_cast<uint4*>(to)[v] = vector;
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i < count) to[i] = chunk.at[i];
}

/// One chunk of a row: elements [first, first + count). The row is divided so that every chunk
/// except the first and the last is aligned in the output.
struct Cut {
  std::int64_t first;
  int count;  ///< 0 if the chunk lies beyond the end of the row

  template <int size, class T>
  static __device__ __forceinline__ Cut chunk(std::int64_t i, const T* written,
                                              std::int64_t columns) {
    const int before = bytes_past_vector(written) / static_cast<int>(sizeof(T)) % size;
    const std::int64_t from = i * size - before;
    const std::int64_t first = from > 0 ? from : 0;
    const std::int64_t end = from + size < columns ? from + size : columns;
    return {first, end > first ? static_cast<int>(end - first) : 0};
  }
};

}  // namespace lockstep::cuda
