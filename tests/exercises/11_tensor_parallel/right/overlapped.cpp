// Computes the gradient of the weight during the all-reduce, and only rank 0 adds the bias.
#include "exercises/11_tensor_parallel/task.h"

namespace lockstep::exercises {

Matrix column_forward(World&, const Linear& part, const Matrix& X) {
  Matrix H(X.rows, part.weight.columns);
  for (int i = 0; i < H.rows; ++i)
    for (int j = 0; j < H.columns; ++j) {
      H(i, j) = part.bias[static_cast<std::size_t>(j)];
      for (int k = 0; k < X.columns; ++k) H(i, j) += X(i, k) * part.weight(k, j);
    }
  return H;
}

Matrix row_forward(World& ranks, const Linear& part, const Matrix& Z) {
  Matrix Y = multiply(Z, part.weight);
  if (ranks.rank() == 0) add_to_each_row(Y, part.bias);
  reduce_scatter(ranks, Y.numbers).wait();
  all_gather(ranks, Y.numbers).wait();
  return Y;
}

Gradients row_backward(World&, const Linear& part, const Matrix& Z, const Matrix& dY) {
  return {multiply(dY, transposed(part.weight)), multiply(transposed(Z), dY), sum_of_rows(dY)};
}

Gradients column_backward(World& ranks, const Linear& part, const Matrix& X, const Matrix& dH) {
  Gradients gradients;
  gradients.input = multiply(dH, transposed(part.weight));
  Work sum = all_reduce(ranks, gradients.input.numbers);
  gradients.weight = multiply(transposed(X), dH);
  gradients.bias = sum_of_rows(dH);
  sum.wait();
  return gradients;
}

}  // namespace lockstep::exercises
