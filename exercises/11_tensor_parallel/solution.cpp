#include "exercises/11_tensor_parallel/task.h"

namespace lockstep::exercises {

Matrix column_forward(World&, const Linear& part, const Matrix& X) {
  Matrix H = multiply(X, part.weight);
  add_to_each_row(H, part.bias);
  return H;
}

Matrix row_forward(World& ranks, const Linear& part, const Matrix& Z) {
  Matrix Y = multiply(Z, part.weight);
  all_reduce(ranks, Y.numbers).wait();
  add_to_each_row(Y, part.bias);  // once: after the sum, not to each of its terms
  return Y;
}

Gradients row_backward(World&, const Linear& part, const Matrix& Z, const Matrix& dY) {
  // Y is a sum with a term from each rank, and the gradient of a term is the gradient of the sum.
  return {.input = multiply(dY, transposed(part.weight)),
          .weight = multiply(transposed(Z), dY),
          .bias = sum_of_rows(dY)};
}

Gradients column_backward(World& ranks, const Linear& part, const Matrix& X, const Matrix& dH) {
  Gradients gradients{.input = multiply(dH, transposed(part.weight)),
                      .weight = multiply(transposed(X), dH),
                      .bias = sum_of_rows(dH)};
  // Each rank has used X for its own columns, so each has one term of X's gradient.
  all_reduce(ranks, gradients.input.numbers).wait();
  return gradients;
}

}  // namespace lockstep::exercises
