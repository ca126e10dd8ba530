#include "kernels/cuda/split_product.h"

#include "kernels/cuda/aligned_rows.h"

namespace lockstep::cuda {
namespace {

/// The smallest extent that is worth a second product.
constexpr std::int64_t least_split = 1024;

/// A range of a product's rows, columns or terms.
struct Range {
  std::int64_t first, count;
};

/// Returns some rows of a factor, which are columns of its matrix if it is transposed.
Factor factor_rows(const Factor& of, Range range) {
  return {of.transposed ? of.matrix.columns(range.first, range.count)
                        : some_rows(of.matrix, range.first, range.count),
          of.transposed};
}
/// Returns some columns of a factor, which are rows of its matrix if it is transposed.
Factor factor_columns(const Factor& of, Range range) {
  return {of.transposed ? some_rows(of.matrix, range.first, range.count)
                        : of.matrix.columns(range.first, range.count),
          of.transposed};
}

MatrixProduct rows_of(MatrixProduct product, Range range) {
  product.a = factor_rows(product.a, range);
  product.d = some_rows(product.d, range.first, range.count);
  return product;
}
MatrixProduct columns_of(MatrixProduct product, Range range) {
  product.b = factor_columns(product.b, range);
  if (product.bias) product.bias = product.bias.columns(range.first, range.count);
  product.d = product.d.columns(range.first, range.count);
  return product;
}
MatrixProduct terms_of(MatrixProduct product, Range range) {
  product.a = factor_columns(product.a, range);
  product.b = factor_rows(product.b, range);
  return product;
}

}  // namespace

std::optional<std::array<MatrixProduct, 2>> in_two(const MatrixProduct& product) {
  const DType dtype = product.d.dtype;
  const auto uneven = [&](std::int64_t extent) {
    return extent >= least_split && extent != aligned_stride(extent, dtype);
  };
  const auto even = [&](std::int64_t extent) {
    return aligned_stride(extent, dtype) - alignment / static_cast<std::int64_t>(size_of(dtype));
  };
  const auto most = [&](std::int64_t extent) { return Range{0, even(extent)}; };
  const auto few = [&](std::int64_t extent) { return Range{even(extent), extent - even(extent)}; };
  const std::int64_t rows = product.rows(), columns = product.columns(), inner = product.inner();
  if (uneven(columns))
    return {{columns_of(product, most(columns)), columns_of(product, few(columns))}};
  if (product.a.transposed && uneven(rows))
    return {{rows_of(product, most(rows)), rows_of(product, few(rows))}};
  if ((!product.a.transposed || product.b.transposed) && uneven(inner)) {
    // The few terms first: in 16 bits, their sum is rounded, and the sum of all once more.
    MatrixProduct rest = terms_of(product, most(inner));
    rest.bias = View{};
    rest.accumulates = true;
    return {{terms_of(product, few(inner)), rest}};
  }
  return std::nullopt;
}

}  // namespace lockstep::cuda
