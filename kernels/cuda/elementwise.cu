/// Elementwise kernels with almost no arithmetic (map.cuh); memory traffic determines their time.
/// add moves 3 n elements, scale and copy 2 n, fill n, and convert n of each of its two types. Each
/// kernel does one operation with one rounding, so its results are bitwise identical to the CPU's.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/tensor_list.cuh"

namespace lockstep::cuda {
namespace {

template <class T>
struct Add {
  __device__ float operator()(T a, T b) const { return widen(a) + widen(b); }
};

template <class T>
struct Scale {
  float factor;
  __device__ float operator()(T x) const { return widen(x) * factor; }
};

/// Copies an element's bits.
template <class Bits>
struct Same {
  __device__ Bits operator()(Bits x) const { return x; }
};

template <class To, class From>
struct Convert {
  __device__ float operator()(From x) const { return widen(x); }
};

/// Maps row by row, or treats the matrix as one long row if there are no gaps between its rows.
template <class To, class From, class F>
void map_matrix(const char* name, Queue queue, F f, arguments::Matrix n, View to, View from) {
  if (from.contiguous() && to.contiguous())
    map(name, queue, f, n.rows * n.columns, data_of<To>(to), data_of<From>(from));
  else
    map(name, queue, f, n.rows, n.columns, rows_of<To>(to), rows_of<From>(from));
}

void add(Queue queue, In a, In b, Out y) {
  const std::int64_t n = arguments::add(a, b, y);
  want_one_type("add", {{"a", a}, {"b", b}, {"y", y}});
  with_type_of(a.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    map("add", queue, Add<T>{}, n, data_of<T>(y), data_of<T>(a), data_of<T>(b));
  });
}

void scale(Queue queue, InOut x, float factor) {
  const std::int64_t n = arguments::one_view("scale", x);
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    map("scale", queue, Scale<T>{factor}, n, data_of<T>(x), data_of<T>(x));
  });
}

template <class T>
struct Filled {
  T* x;
  std::int64_t n;
};
template <class T>
using FilledList = TensorList<Filled<T>, 128>;

template <class T>
__global__ void __launch_bounds__(map_threads)
    fill_kernel(float value, const __grid_constant__ FilledList<T> list) {
  const int t = list.of_block(static_cast<int>(blockIdx.x));
  const Filled<T>& to = list.tensors[t];
  const std::int64_t block = static_cast<int>(blockIdx.x) - list.first_block[t];
  const auto chunk = rounded_chunk<T, per_vector<T>>([&](int) { return value; });
#pragma unroll
  for (int c = 0; c < map_chunks; ++c) {
    const std::int64_t i = (block * map_chunks + c) * map_threads + threadIdx.x;
    const Cut cut = Cut::chunk<per_vector<T>>(i, to.x, to.n);
    store(to.x + cut.first, chunk, cut.count);
  }
}

/// Fills tensors [first, ...), all that fit in one launch and have the first one's type. Returns
/// the index of the next tensor.
std::size_t fill_list(Queue queue, const Outs& xs, std::size_t first, float value) {
  std::size_t end = first;
  with_type_of(xs[first].dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    constexpr std::int64_t tile = std::int64_t{map_threads} * map_chunks * per_vector<T>;
    FilledList<T> list;
    for (; end < xs.size() && xs[end].dtype == xs[first].dtype; ++end) {
      const std::int64_t n = xs[end].elements();
      // Alignment may add one chunk.
      const std::int64_t blocks = n == 0 ? 0 : groups_of(tile, n + per_vector<T> - 1);
      if (!list.add({data_of<T>(xs[end]), n}, blocks)) break;
    }
    launch({"fill", queue, Grid{list.blocks()}, dim3(map_threads)}, fill_kernel<T>, value, list);
  });
  return end;
}

void fill(Queue queue, const Outs& xs, float value) {
  for (const Out& x : xs) arguments::one_view("fill", x);
  for (std::size_t next = 0; next < xs.size();) next = fill_list(queue, xs, next, value);
}

void copy(Queue queue, In from, Out to) {
  const arguments::Matrix n = arguments::copy(from, to);
  if (size_of(from.dtype) == 2)
    map_matrix<std::uint16_t, std::uint16_t>("copy", queue, Same<std::uint16_t>{}, n, to, from);
  else
    map_matrix<std::uint32_t, std::uint32_t>("copy", queue, Same<std::uint32_t>{}, n, to, from);
}

void convert(Queue queue, In from, Out to) {
  if (from.dtype == to.dtype) return copy(queue, from, to);
  const arguments::Matrix n = arguments::convert(from, to);
  with_type_of(from.dtype, [&](auto from_type) {
    with_type_of(to.dtype, [&](auto to_type) {
      using From = Pointee<decltype(from_type)>;
      using To = Pointee<decltype(to_type)>;
      map_matrix<To, From>("convert", queue, Convert<To, From>{}, n, to, from);
    });
  });
}

}  // namespace

void set_elementwise(Kernels& kernels) {
  kernels.add = add;
  kernels.scale = scale;
  kernels.fill = fill;
  kernels.copy = copy;
  kernels.convert = convert;
}

}  // namespace lockstep::cuda
