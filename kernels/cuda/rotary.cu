/// Rotary positions: reads and writes each element of x once; the table stays in a cache.
///
/// A block rotates one row. A thread takes a chunk of the left half of a head and the chunk of the
/// right half with which it forms pairs. Each element is rounded once, and the file is compiled
/// without fused multiply-adds, so the results are bitwise identical to the CPU's in every type.

#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

constexpr int most_rotary_threads = 256;

template <class T>
__global__ void __launch_bounds__(most_rotary_threads)
    rotary_kernel(Rows<T> x, int heads, int d, const float* table, int rows_of_table,
                  const std::int32_t* positions, std::int64_t positions_count, float sign) {
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const int position = positions[row % positions_count], half = d / 2;
  if (position < 0 || position >= rows_of_table) return;
  const float* const cosines = table + std::int64_t{position} * d;
  const int chunks = (half + size - 1) / size;  // in half a head
  for (int i = static_cast<int>(threadIdx.x); i < heads * chunks;
       i += static_cast<int>(blockDim.x)) {
    T* const left = x.data + row * x.stride + i / chunks * d;
    const int first = i % chunks * size, count = min(size, half - first);
    const auto load = [&]<class U>(const U* from) {
      return Source<U>{from, from + half}.template load<size>(first, count, U{});
    };
    const Chunk<T, size> lefts = load(left), rights = load(left + half);
    const Chunk<float, size> cosine = load(cosines), sine = load(cosines + half);
    const auto rotated = [&](int e) {
      return element::rotated({widen(lefts.at(e)), widen(rights.at(e))}, cosine.at(e),
                              sign * sine.at(e));
    };
    store(left + first, rounded_chunk<T, size>([&](int e) { return rotated(e).x; }), count);
    store(left + half + first, rounded_chunk<T, size>([&](int e) { return rotated(e).y; }), count);
  }
}

void rotary(Queue queue, InOut x, int heads, In32 table, Indices positions, bool inverse) {
  const arguments::Rotary n = arguments::rotary(x, heads, table, positions);
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    const std::int64_t chunks = n.heads * groups_of(per_vector<T>, n.d / 2);
    const auto threads = static_cast<unsigned>(
        chunks < most_rotary_threads ? groups_of(32, chunks) * 32 : most_rotary_threads);
    launch({"rotary", queue, Grid{threads == 0 ? 0 : n.rows}, dim3(threads)}, rotary_kernel<T>,
           rows_of<T>(x), static_cast<int>(n.heads), static_cast<int>(n.d), table.f32(),
           static_cast<int>(n.table), positions.i32(), n.positions, inverse ? -1.0F : 1.0F);
  });
}

}  // namespace

void set_rotary(Kernels& kernels) {
  kernels.rotary = rotary;
}

}  // namespace lockstep::cuda
