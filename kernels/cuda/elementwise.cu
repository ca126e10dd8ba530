/// Elementwise kernels with almost no arithmetic (map.cuh); memory traffic determines their time.
/// add moves 3 n elements, scale and copy 2 n, fill n, and convert n of each of its two types. Each
/// kernel does one operation with one rounding, so its results are bitwise identical to the CPU's.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/map.cuh"

namespace lockstep::cuda {
namespace {

template <class T>
struct Add {
  __device__ T operator()(T a, T b) const { return rounded<T>(widen(a) + widen(b)); }
};

template <class T>
struct Scale {
  float factor;
  __device__ T operator()(T x) const { return rounded<T>(widen(x) * factor); }
};

template <class T>
struct Fill {
  float value;
  __device__ T operator()() const { return rounded<T>(value); }
};

/// Copies an element's bits.
template <class Bits>
struct Same {
  __device__ Bits operator()(Bits x) const { return x; }
};

template <class To, class From>
struct Convert {
  __device__ To operator()(From x) const { return rounded<To>(widen(x)); }
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

void fill(Queue queue, Out x, float value) {
  const std::int64_t n = arguments::one_view("fill", x);
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    map("fill", queue, Fill<T>{value}, n, data_of<T>(x));
  });
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
