/// The linear layer: three matrix products (matrix_products.h), and the bias's gradient.
///
/// With N rows, each product takes 2 N in out FLOPs and moves N (in + out) + in out elements. The
/// forward product adds the bias as it writes y, without another pass over y. Computing the bias's
/// gradient, the column sums of dy, reads the N out elements of dy again (column_sums.cuh).

#include <memory>

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/matrix_products.h"

namespace lockstep::cuda {
namespace {

template <class T, bool whole>
struct ColumnSums {
  Rows<const T, whole> from;

  template <int size>
  __device__ void operator()(std::int64_t row, std::int64_t first, int count, std::int64_t columns,
                             float (&sums)[size], float (&)[size]) const {
    const Chunk<T, size> chunk = from.row(row, columns).template load<size>(first, count, T{});
    for (int i = 0; i < size; ++i) sums[i] += widen(chunk.at(i));
  }
};

void linear_forward(const MatrixProducts& products, Queue queue, In x, In w, In bias, Out y,
                    WeightLayout layout) {
  arguments::linear_forward(x, w, bias, y, layout);
  want_one_type("linear_forward", {{"x", x}, {"w", w}, {"bias", bias}, {"y", y}});
  products.multiply(queue, {x}, {w, layout == WeightLayout::out_in}, bias, y);
}

void linear_backward_input(const MatrixProducts& products, Queue queue, In dy, In w, Out dx,
                           WeightLayout layout) {
  arguments::linear_backward_input(dy, w, dx, layout);
  want_one_type("linear_backward_input", {{"dy", dy}, {"w", w}, {"dx", dx}});
  products.multiply(queue, {dy}, {w, layout == WeightLayout::in_out}, View{}, dx);
}

void linear_backward_weight(const MatrixProducts& products, Queue queue, In x, In dy, InOut dw,
                            InOut db, WeightLayout layout) {
  constexpr const char* name = "linear_backward_weight";
  const auto n = arguments::linear_backward_weight(x, dy, dw, db, layout);
  want_one_type(name, {{"x", x}, {"dy", dy}, {"dw", dw}, {"db", db}});
  if (layout == WeightLayout::in_out)
    products.accumulate(queue, {x, true}, {dy}, dw);
  else
    products.accumulate(queue, {dy, true}, {x}, dw);
  if (!db) return;
  with_type_of(dy.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    T* const none = nullptr;
    with_whole({dy}, [&](auto whole) {
      const ColumnSums<T, whole> sums{rows_of<const T, whole>(dy)};
      add_column_sums(name, queue, sums, {n.rows, n.out}, data_of<T>(db), none);
    });
  });
}

}  // namespace

void set_linear(Kernels& kernels, bool allow_tf32) {
  const auto products = std::make_shared<const MatrixProducts>(kernels.copy, allow_tf32);
  kernels.linear_forward = [products](auto... arguments) {
    linear_forward(*products, arguments...);
  };
  kernels.linear_backward_input = [products](auto... arguments) {
    linear_backward_input(*products, arguments...);
  };
  kernels.linear_backward_weight = [products](auto... arguments) {
    linear_backward_weight(*products, arguments...);
  };
}

}  // namespace lockstep::cuda
