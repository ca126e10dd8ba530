#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// A matrix of rows x columns numbers, all 0 at first.
struct Matrix {
  Matrix() = default;
  Matrix(int rows_, int columns_)
      : rows(rows_),
        columns(columns_),
        numbers(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)) {}

  float& operator()(int row, int column) { return numbers[index(row, column)]; }
  float operator()(int row, int column) const { return numbers[index(row, column)]; }

  int rows = 0, columns = 0;
  std::vector<float> numbers;  ///< row by row

 private:
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
           static_cast<std::size_t>(column);
  }
};

/// You can use these functions.
Matrix multiply(const Matrix& a, const Matrix& b);
Matrix transposed(const Matrix& a);
void add_to_each_row(Matrix& a, const std::vector<float>& bias);
std::vector<float> sum_of_rows(const Matrix& a);  ///< as long as a row

/// One rank's part of a linear layer Y = X W + b, which adds b to each row. W's columns or rows are
/// divided among the ranks; a rank may have none of them.
struct Linear {
  Matrix weight;
  std::vector<float> bias;
};

/// The gradients of the loss with respect to a layer's input, weight and bias. Each gradient has
/// the shape of its tensor.
struct Gradients {
  Matrix input, weight;
  std::vector<float> bias;
};

// All ranks call these four functions in this order, with an elementwise function between the two
// layers, such as Z = GELU(H). In the forward pass, the ranks all-reduce one output Y and send
// nothing else; in the backward pass, they all-reduce one gradient of X. No rank sends more bytes
// or more messages than all_reduce() does.

/// A column-parallel layer. Every rank has the whole input X. `part` holds some of the columns of W
/// and the corresponding elements of b. Returns these columns of the output, X W + b.
Matrix column_forward(World& ranks, const Linear& part, const Matrix& X);

/// A row-parallel layer. Z holds some of the columns of the input, and `part` holds the
/// corresponding rows of W and all of b. Returns the whole output, the same on each rank.
Matrix row_forward(World& ranks, const Linear& part, const Matrix& Z);

/// Its backward pass: dY is the gradient of the whole output, the same on each rank. Returns the
/// gradients of this rank's Z, of its rows of W, and of b.
Gradients row_backward(World& ranks, const Linear& part, const Matrix& Z, const Matrix& dY);

/// The backward pass of the column-parallel layer: dH is the gradient of this rank's columns of the
/// output. Returns the gradient of the whole X, the same on each rank, and the gradients of this
/// rank's columns of W and of its elements of b.
Gradients column_backward(World& ranks, const Linear& part, const Matrix& X, const Matrix& dH);

}  // namespace lockstep::exercises
