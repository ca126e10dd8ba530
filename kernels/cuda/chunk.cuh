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
///
/// All of this takes branches, across which the compiler does not move loads. Most arrays don't
/// need them: their rows are *whole*: each begins at a multiple of 16 bytes and is a multiple of 16
/// bytes long. Kernels are therefore compiled a second time for whole rows (with_whole), with the
/// same order of sums.

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/narrow.cuh"
#include "kernels/cuda/ptx.cuh"

namespace lockstep::cuda {

inline constexpr int vector_bytes = 16;

/// The number of elements in 16 bytes.
template <class T>
inline constexpr int per_vector = vector_bytes / static_cast<int>(sizeof(T));

/// Holds `size` elements in a thread's registers, 16-bit ones two to a register, as a load delivers
/// them: unpacking costs one instruction per element, and only when the element is used.
template <class T, int size>
class Chunk {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  static constexpr int per_word = 4 / static_cast<int>(sizeof(T));

 public:
  static constexpr int words = size / per_word;

  __device__ __forceinline__ T at(int i) const {
    T element;
    if constexpr (per_word == 1) {
      memcpy(&element, &word[i], sizeof element);
    } else {
      const auto half = static_cast<std::uint16_t>(word[i / 2] >> (i % 2 * 16));
      memcpy(&element, &half, sizeof element);
    }
    return element;
  }

  __device__ __forceinline__ void set(int i, T element) {
    if constexpr (per_word == 1) {
      memcpy(&word[i], &element, sizeof element);
    } else {
      std::uint16_t half;
      memcpy(&half, &element, sizeof element);
      word[i / 2] = i % 2 == 0 ? (word[i / 2] & 0xffff0000U) | half
                               : (word[i / 2] & 0xffffU) | static_cast<unsigned>(half) << 16U;
    }
  }

  unsigned word[words] = {};
};

/// Returns a chunk of value(i), each rounded to T. 16-bit elements are rounded in pairs, with one
/// instruction.
template <class T, int size, class Value>
__device__ __forceinline__ Chunk<T, size> rounded_chunk(Value value) {
  Chunk<T, size> chunk;
#pragma unroll
  for (int w = 0; w < chunk.words; ++w) {
    if constexpr (sizeof(T) == 2)
      chunk.word[w] = ptx::pack<T>(value(2 * w), value(2 * w + 1));
    else
      chunk.set(w, value(w));
  }
  return chunk;
}

/// Calls visit(i) for the first `count` of `size` elements. Full chunks, which are nearly all, take
/// the branch without a comparison per element. A chunk of a whole row must be full.
template <int size, bool whole = false, class Visit>
__device__ __forceinline__ void first_elements(int count, Visit visit) {
  if (whole || count == size) {
#pragma unroll
    for (int i = 0; i < size; ++i) visit(i);
  } else {
#pragma unroll
    for (int i = 0; i < size; ++i)
      if (i < count) visit(i);
  }
}

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

/// An input range: a row or an array. Loads never read outside [begin, end). The chunks of a whole
/// row are full or empty; empty ones hold zeros.
template <class T, bool whole = false>
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
    if constexpr (whole) {
      if (count != size) return chunk;
      if constexpr (bytes == 8) {
        put(chunk, *reinterpret_cast<const uint2*>(from));
      } else {
#pragma unroll
        for (int v = 0; v < bytes / vector_bytes; ++v)
          put(chunk, v, reinterpret_cast<const uint4*>(from)[v]);
      }
      return chunk;
    }
    if constexpr (bytes == 8) {
      if (count == size && bytes_past_vector(from) % 8 == 0) {
        put(chunk, *reinterpret_cast<const uint2*>(from));
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
    for (int i = 0; i < size; ++i) chunk.set(i, i < count ? from[i] : other);
    return chunk;
  }

 private:
  template <int size>
  static __device__ __forceinline__ void put(Chunk<T, size>& chunk, int v, uint4 vector) {
    memcpy(&chunk.word[4 * v], &vector, vector_bytes);
  }
  template <int size>
  static __device__ __forceinline__ void put(Chunk<T, size>& chunk, uint2 half) {
    chunk.word[0] = half.x;
    chunk.word[1] = half.y;
  }
};

/// Rows of elements; `stride` is in elements.
template <class T, bool whole = false>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ Source<std::remove_const_t<T>, whole> row(std::int64_t i, std::int64_t columns) const {
    return {data + i * stride, data + i * stride + columns};
  }

  /// Whether all rows start at multiples of 16 bytes.
  bool aligned() const {
    return (reinterpret_cast<std::uintptr_t>(data) |
            static_cast<std::uintptr_t>(stride) * sizeof(T)) %
               vector_bytes ==
           0;
  }
};

template <class T, bool whole = false>
Rows<T, whole> rows_of(const View& view) {
  return {data_of<T>(view), view.row_stride};
}

/// Turns a condition into a template argument: calls visit(std::true_type) or
/// visit(std::false_type).
template <class Visit>
void with(bool condition, Visit visit) {
  if (condition)
    visit(std::true_type{});
  else
    visit(std::false_type{});
}

/// Calls visit(std::true_type) if all rows of these views are whole, otherwise
/// visit(std::false_type). Views without data don't count.
template <class Visit>
void with_whole(std::initializer_list<View> views, Visit visit) {
  bool whole = true;
  for (const View& view : views) {
    const auto element = static_cast<std::int64_t>(size_of(view.dtype));
    const auto start = reinterpret_cast<std::uintptr_t>(view.data);
    whole =
        whole && (start % vector_bytes == 0 && view.shape.last() * element % vector_bytes == 0 &&
                  view.row_stride * element % vector_bytes == 0);
  }
  with(whole, visit);
}

/// Writes the first `count` elements of a chunk, with one instruction if the chunk is full and the
/// address aligned.
template <bool whole = false, class T, int size>
__device__ __forceinline__ void store(T* to, const Chunk<T, size>& chunk, int count) {
  constexpr int bytes = size * static_cast<int>(sizeof(T));
  if constexpr (bytes == 8) {
    if (count == size && (whole || bytes_past_vector(to) % 8 == 0)) {
      *reinterpret_cast<uint2*>(to) = {chunk.word[0], chunk.word[1]};
      return;
    }
  } else {
    if (count == size && (whole || bytes_past_vector(to) == 0)) {
#pragma unroll
      for (int v = 0; v < bytes / vector_bytes; ++v) {
        uint4 vector;
        memcpy(&vector, &chunk.word[4 * v], vector_bytes);
        reinterpret_cast<uint4*>(to)[v] = vector;
      }
      return;
    }
  }
  if constexpr (!whole) {
#pragma unroll
    for (int i = 0; i < size; ++i)
      if (i < count) to[i] = chunk.at(i);
  }
}

/// One chunk of a row: elements [first, first + count). The row is divided so that every chunk
/// except the first and the last is aligned in the output.
struct Cut {
  std::int64_t first;
  int count;  ///< 0 if the chunk lies beyond the end of the row

  template <int size, bool whole = false, class T>
  static __device__ __forceinline__ Cut chunk(std::int64_t i, const T* written,
                                              std::int64_t columns) {
    if constexpr (whole) return {i * size, i * size < columns ? size : 0};
    const int before = bytes_past_vector(written) / static_cast<int>(sizeof(T)) % size;
    const std::int64_t from = i * size - before;
    const std::int64_t first = from > 0 ? from : 0;
    const std::int64_t end = from + size < columns ? from + size : columns;
    return {first, end > first ? static_cast<int>(end - first) : 0};
  }
};

}  // namespace lockstep::cuda
