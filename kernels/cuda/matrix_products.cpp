#include "kernels/cuda/matrix_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/cuda/product_call.h"
#include "kernels/cuda/split_product.h"

namespace lockstep::cuda {
namespace {

/// Copies `row` to every row of `matrix`: first to one row, and then each time to as many rows as
/// already hold it.
void repeat_row(const Copy& copy, Queue queue, View row, View matrix) {
  const std::int64_t rows = matrix.shape.rows();
  copy(queue, row, some_rows(matrix, 0, 1));
  for (std::int64_t done = 1, next = 0; done < rows; done += next) {
    next = std::min(done, rows - done);
    copy(queue, some_rows(matrix, 0, next), some_rows(matrix, done, next));
  }
}

cublasLtHandle_t opened(CublasLibrary& library) {
  LOCKSTEP_CUBLAS(cublasLtCreate(library.out()));
  return library.get();
}

}  // namespace

MatrixProducts::MatrixProducts(Copy copy, bool allow_tf32, ProductTable& table)
    : copy_(std::move(copy)),
      allow_tf32_(allow_tf32),
      algorithms_(opened(library_), allow_tf32, table) {}

void MatrixProducts::multiply(Queue queue, Factor a, Factor b, View bias, View d) const {
  run(queue, {a, b, bias, d, false});
}

void MatrixProducts::accumulate(Queue queue, Factor a, Factor b, View d) const {
  run(queue, {a, b, View{}, d, true});
}

void MatrixProducts::run(Queue queue, const MatrixProduct& product) const {
  const auto& [a, b, bias, d, accumulates] = product;
  if (product.rows() == 0 || product.columns() == 0 || product.inner() == 0) return;
  if (const auto parts = in_two(product)) {
    for (const MatrixProduct& part : *parts) run(queue, part);
    return;
  }
  const Aligned aligned_a(copy_, queue, a.matrix, true);
  const Aligned aligned_b(copy_, queue, b.matrix, true);
  const Aligned aligned_d(copy_, queue, d, accumulates);
  std::optional<Aligned> aligned_bias;
  if (bias) aligned_bias.emplace(copy_, queue, bias, true);
  const MatrixProduct same{{aligned_a.view(), a.transposed},
                           {aligned_b.view(), b.transposed},
                           bias ? aligned_bias->view() : bias,
                           aligned_d.view(),
                           accumulates};
  const ProductCall call(library_.get(), same, allow_tf32_);
  const auto& algorithm = algorithms_.find(same, call);
  if (!algorithm && bias) {
    // For some shapes, such as a single column, cuBLASLt has no algorithm that adds a bias.
    // Starting from the bias in every row gives the same sum, which is also rounded once.
    repeat_row(copy_, queue, bias, d);
    return run(queue, {a, b, View{}, d, true});
  }
  if (!algorithm)
    throw GpuError(fmt::format("cuBLASLt has no algorithm for a product of {} x {} x {} in {}",
                               product.rows(), product.inner(), product.columns(),
                               name_of(d.dtype)));
  call.run(queue, *algorithm);
  aligned_d.copy_back();
}

}  // namespace lockstep::cuda
