#include "exercises/11_tensor_parallel/task.h"

namespace lockstep::exercises {

// Replace each not_written() by your answer. They are checked in this order.

Matrix column_forward(World& ranks, const Linear& part, const Matrix& X) {
  (void)ranks, (void)part, (void)X;
  not_written();
}

Matrix row_forward(World& ranks, const Linear& part, const Matrix& Z) {
  (void)ranks, (void)part, (void)Z;
  not_written();
}

Gradients row_backward(World& ranks, const Linear& part, const Matrix& Z, const Matrix& dY) {
  (void)ranks, (void)part, (void)Z, (void)dY;
  not_written();
}

Gradients column_backward(World& ranks, const Linear& part, const Matrix& X, const Matrix& dH) {
  (void)ranks, (void)part, (void)X, (void)dH;
  not_written();
}

}  // namespace lockstep::exercises
