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

/// The chunks of one input that a thread maps.
template <class T, int size>
struct Loaded {
  Chunk<T, size> chunks[map_chunks];

  template <bool whole>
  __device__ Loaded(const Source<T, whole>& row, const Cut (&cuts)[map_chunks]) {
#pragma unroll
    for (int k = 0; k < map_chunks; ++k)
      chunks[k] = row.template load<size>(cuts[k].first, cuts[k].count, T{});
  }
};

/// Returns a chunk of f(in[i]...), each rounded to Out if f returns an f32.
template <class Out, class F, class... In>
__device__ __forceinline__ Chunk<Out, per_vector<Out>> mapped(
    F f, const Chunk<In, per_vector<Out>>&... in) {
  if constexpr (std::is_same_v<decltype(f(in.at(0)...)), Out>) {
    Chunk<Out, per_vector<Out>> out;
#pragma unroll
    for (int i = 0; i < per_vector<Out>; ++i) out.set(i, f(in.at(i)...));
    return out;
  } else {
    return rounded_chunk<Out, per_vector<Out>>([&](int i) { return f(in.at(i)...); });
  }
}

/// Maps and stores a thread's chunks.
template <bool whole, class Out, class F, class... In>
__device__ __forceinline__ void store_mapped(Out* row, const Cut (&cuts)[map_chunks], F f,
                                             const Loaded<In, per_vector<Out>>&... in) {
#pragma unroll
  for (int k = 0; k < map_chunks; ++k)
    store<whole>(row + cuts[k].first, mapped<Out>(f, in.chunks[k]...), cuts[k].count);
}

/// All of a thread's loads precede its first store: they are arguments of store_mapped.
template <bool whole, class Out, class F, class... In>
__global__ void __launch_bounds__(map_threads)
    map_rows(F f, std::int64_t columns, std::int64_t blocks_per_row, Rows<Out> out,
             Rows<const In, whole>... in) {
  constexpr int size = per_vector<Out>;
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t part = blockIdx.x % blocks_per_row;
  const auto threads = static_cast<int>(blockDim.x);
  const std::int64_t first = part * threads * map_chunks + threadIdx.x;
  Out* const to = out.data + row * out.stride;
  const Cut cuts[map_chunks] = {Cut::chunk<size, whole>(first, to, columns),
                                Cut::chunk<size, whole>(first + threads, to, columns)};
  store_mapped<whole>(to, cuts, f, Loaded<In, size>(in.row(row, columns), cuts)...);
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
