#include "exercises/11_tensor_parallel/task.h"

// Each all-reduce is a reduce-scatter and an all-gather; the products are written by hand.

namespace lockstep::exercises {

static Matrix product(const Matrix& a, const Matrix& b, bool at, bool bt) {
  const int rows = at ? a.columns : a.rows, inner = at ? a.rows : a.columns,
            columns = bt ? b.rows : b.columns;
  Matrix c{rows, columns};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int k = 0; k < inner; ++k)
        c(i, j) += (at ? a(k, i) : a(i, k)) * (bt ? b(j, k) : b(k, j));
  return c;
}
static void sum(World& ranks, Matrix& m) {
  Work a = reduce_scatter(ranks, m.numbers), b = all_gather(ranks, m.numbers);
  b.wait();
  a.wait();
}
Matrix column_forward(World&, const Linear& part, const Matrix& X) {
  Matrix H = product(X, part.weight, false, false);
  for (int i = 0; i < H.rows; ++i)
    for (int j = 0; j < H.columns; ++j) H(i, j) += part.bias[static_cast<std::size_t>(j)];
  return H;
}
Matrix row_forward(World& ranks, const Linear& part, const Matrix& Z) {
  Matrix Y = product(Z, part.weight, false, false);
  sum(ranks, Y);
  add_to_each_row(Y, part.bias);
  return Y;
}
Gradients row_backward(World&, const Linear& part, const Matrix& Z, const Matrix& dY) {
  return {product(dY, part.weight, false, true), product(Z, dY, true, false), sum_of_rows(dY)};
}
Gradients column_backward(World& ranks, const Linear& part, const Matrix& X, const Matrix& dH) {
  Gradients g{product(dH, part.weight, false, true), product(X, dH, true, false), sum_of_rows(dH)};
  sum(ranks, g.input);
  return g;
}

}  // namespace lockstep::exercises
