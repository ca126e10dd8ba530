#pragma once

/// Elementwise maps, row by row: out[r][c] = f(in[r][c], ...), rounded if f returns an f32 and the
/// output has 16 bits.
///
/// Each thread computes two 16-byte chunks of the output, after loading the inputs of both chunks.
/// Chunks are aligned in the output, so every store except those at a row's ends is 16 bytes wide.
/// Each element is read and written once. An output may be one of the inputs.

#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

inline constexpr int map_threads = 256;  ///< of a block, at most
inline constexpr int map_chunks = 2;     ///< chunks per thread

template <bool whole, class Out, class F, class... In>
__global__ void __launch_bounds__(map_threads)
    map_rows(F f, std::int64_t columns, std::int64_t blocks_per_row, Rows<Out> out,
             Rows<const In, whole>... in) {
  constexpr int size = per_vector<Out>;
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t part = blockIdx.x % blocks_per_row;
  Out* const to = out.data + row * out.stride;
  const auto apply = [&](Cut cut, const Chunk<In, size>&... chunks) {
    using Result = decltype(f(chunks.at(0)...));
    Chunk<Out, size> result;
    if constexpr (std::is_same_v<Result, Out>) {
#pragma unroll
      for (int i = 0; i < size; ++i) result.set(i, f(chunks.at(i)...));
    } else {
      result = rounded_chunk<Out, size>([&](int i) { return f(chunks.at(i)...); });
    }
    store<whole>(to + cut.first, result, cut.count);
  };
  const auto load = [&](auto rows, Cut cut) {
    using T = std::remove_const_t<Pointee<decltype(rows.data)>>;
    return rows.row(row, columns).template load<size>(cut.first, cut.count, T{});
  };
  const auto threads = static_cast<int>(blockDim.x);
  const std::int64_t first = part * threads * map_chunks + threadIdx.x;
  const Cut one = Cut::chunk<size, whole>(first, to, columns);
  const Cut two = Cut::chunk<size, whole>(first + threads, to, columns);
  [&](const Chunk<In, size>&... ones) {
    [&](const Chunk<In, size>&... twos) {
      apply(one, ones...);
      apply(two, twos...);
    }(load(in, two)...);
  }(load(in, one)...);
}

/// Returns the number of threads per block for rows of `chunks` chunks: with a short row, a block
/// of map_threads would be mostly idle.
inline std::int64_t threads_for_row(std::int64_t chunks, int chunks_per_thread) {
  const std::int64_t wanted = groups_of(32, groups_of(chunks_per_thread, chunks)) * 32;
  return wanted < map_threads ? wanted : map_threads;
}

/// Maps f over a matrix; pass a contiguous matrix as one long row.
template <class Out, class F, class... In>
void map(const char* name, Queue queue, F f, std::int64_t rows, std::int64_t columns, Rows<Out> out,
         Rows<In>... in) {
  if (rows == 0 || columns == 0) return;
  // Alignment may add one chunk to the row.
  const std::int64_t chunks = groups_of(per_vector<Out>, columns + per_vector<Out> - 1);
  const std::int64_t threads = threads_for_row(chunks, map_chunks);
  const std::int64_t blocks = groups_of(threads * map_chunks, chunks);
  const bool whole_chunks =
      columns % per_vector<Out> == 0 && out.aligned() && (in.aligned() && ...);
  with(whole_chunks, [&](auto whole) {
    launch({name, queue, Grid{rows * blocks}, dim3(static_cast<unsigned>(threads))},
           map_rows<whole, Out, F, std::remove_const_t<In>...>, f, columns, blocks, out,
           Rows<const In, whole>{in.data, in.stride}...);
  });
}

/// Maps f over n contiguous elements.
template <class Out, class F, class... In>
void map(const char* name, Queue queue, F f, std::int64_t n, Out* out, In*... in) {
  map(name, queue, f, n == 0 ? 0 : 1, n, Rows<Out>{out, n}, Rows<In>{in, n}...);
}

}  // namespace lockstep::cuda
