// diagnosis: sends more than the others
#include "exercises/11_tensor_parallel/task.h"

namespace lockstep::exercises {

Matrix column_forward(World&, const Linear& part, const Matrix& X) {
  Matrix H = multiply(X, part.weight);
  add_to_each_row(H, part.bias);
  return H;
}
static void sum(World& ranks, std::vector<float>& data) {
  const int N = ranks.size();
  if (ranks.rank() == 0) {
    std::vector<float> in(data.size());
    for (int r = 1; r < N; ++r) {
      ranks.receive(in, r).wait();
      for (std::size_t i = 0; i < in.size(); ++i) data[i] += in[i];
    }
    for (int r = 1; r < N; ++r) ranks.send(data, r).wait();
  } else {
    ranks.send(data, 0).wait();
    ranks.receive(data, 0).wait();
  }
}
Matrix row_forward(World& ranks, const Linear& part, const Matrix& Z) {
  Matrix Y = multiply(Z, part.weight);
  sum(ranks, Y.numbers);
  add_to_each_row(Y, part.bias);
  return Y;
}
Gradients row_backward(World&, const Linear& part, const Matrix& Z, const Matrix& dY) {
  return {multiply(dY, transposed(part.weight)), multiply(transposed(Z), dY), sum_of_rows(dY)};
}
Gradients column_backward(World& ranks, const Linear& part, const Matrix& X, const Matrix& dH) {
  Gradients g{multiply(dH, transposed(part.weight)), multiply(transposed(X), dH), sum_of_rows(dH)};
  sum(ranks, g.input.numbers);
  return g;
}

}  // namespace lockstep::exercises
