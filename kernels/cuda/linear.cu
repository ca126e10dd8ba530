/// The linear layer: three matrix products (matrix_products.h), and the bias's gradient.
///
/// With N rows, each product takes 2 N in out FLOPs and moves N (in + out) + in out elements. The
/// forward product adds the bias as it writes y, without another pass. The bias's gradient, the
/// column sums of dy, reads dy again: N out elements (column_sums.cuh).

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/matrix_products.h"

namespace lockstep::cuda {
namespace {

template <class T>
struct ColumnSums {
  Rows<const T> from;

  template <int size>
  __device__ void operator()(std::int64_t row, std::int64_t first, int count, std::int64_t columns,
                             float (&sums)[size], float (&)[size]) const {
    const Chunk<T, size> chunk = from.row(row, columns).template load<size>(first, count, T{});
    for (int i = 0; i < size; ++i) sums[i] += widen(chunk.at[i]);
  }
};

}  // namespace

void DeviceKernels::linear_forward(Queue queue, View x, View w, View bias, View y,
                                   WeightLayout layout) const {
  arguments::linear_forward(x, w, bias, y, layout);
  want_one_type("linear_forward", {{"x", x}, {"w", w}, {"bias", bias}, {"y", y}});
  products_->multiply(queue, {x}, {w, layout == WeightLayout::out_in}, bias, y);
}

void DeviceKernels::linear_backward_input(Queue queue, View dy, View w, View dx,
                                          WeightLayout layout) const {
  arguments::linear_backward_input(dy, w, dx, layout);
  want_one_type("linear_backward_input", {{"dy", dy}, {"w", w}, {"dx", dx}});
  products_->multiply(queue, {dy}, {w, layout == WeightLayout::in_out}, View{}, dx);
}

void DeviceKernels::linear_backward_weight(Queue queue, View x, View dy, View dw, View db,
                                           WeightLayout layout) const {
  constexpr const char* name = "linear_backward_weight";
  const auto n = arguments::linear_backward_weight(x, dy, dw, db, layout);
  want_one_type(name, {{"x", x}, {"dy", dy}, {"dw", dw}, {"db", db}});
  if (layout == WeightLayout::in_out)
    products_->accumulate(queue, {x, true}, {dy}, dw);
  else
    products_->accumulate(queue, {dy, true}, {x}, dw);
  if (!db) return;
  with_type_of(dy.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    T* const none = nullptr;
    add_column_sums(name, queue, ColumnSums<T>{rows_of<const T>(dy)}, {n.rows, n.out},
                    data_of<T>(db), none);
  });
}

}  // namespace lockstep::cuda
