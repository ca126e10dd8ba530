/// Token and position embeddings: rows of two tables, added; and the scatter that is their
/// gradient. Both move about 3 b s h elements. The scatter goes through the tokens in ascending
/// order, so a token that occurs twice has its contributions added in one fixed order.

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"

namespace lockstep::cpu {
namespace {

struct Sizes {
  std::int64_t rows, s, h, vocabulary;
};

Sizes sizes(const char* kernel, Named tokens, Named table, Named positions, Named x) {
  want_indices(kernel, tokens);
  want_contiguous(kernel, {table, positions, x});
  const Sizes n{x.view.shape.rows(), tokens.view.shape.last(), x.view.shape.last(),
                table.view.shape.rows()};
  want(kernel, tokens.view.elements() == n.rows, tokens, x, "there must be one token for each row");
  want(kernel, table.view.shape.last() == n.h, table, x, "both must have h columns");
  want(kernel, positions.view.shape.last() == n.h, positions, x, "both must have h columns");
  want(kernel, positions.view.shape.rows() >= n.s, positions, tokens,
       "there must be a position for each of the s tokens of a sequence");
  // All tokens are checked before anything is written.
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const std::int32_t token = tokens.view.i32()[row];
    if (token < 0 || token >= n.vocabulary)
      throw std::out_of_range(
          fmt::format("{}: token {} at (b, s) = ({}, {}) is outside the vocabulary [0, {})", kernel,
                      token, row / n.s, row % n.s, n.vocabulary));
  }
  return n;
}

}  // namespace

void CpuKernels::embedding_forward(Queue, View tokens, View tokens_table, View positions_table,
                                   View x) const {
  const Sizes n = sizes("embedding_forward", {"tokens", tokens}, {"tokens_table", tokens_table},
                        {"positions_table", positions_table}, {"x", x});
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const token = tokens_table.f32() + tokens.i32()[row] * n.h;
    const float* const position = positions_table.f32() + row % n.s * n.h;
    float* const out = x.f32() + row * n.h;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n.h; ++i) out[i] = token[i] + position[i];
  }
}

void CpuKernels::embedding_backward(Queue, View tokens, View dx, View dtokens_table,
                                    View dpositions_table) const {
  const Sizes n = sizes("embedding_backward", {"tokens", tokens}, {"dtokens_table", dtokens_table},
                        {"dpositions_table", dpositions_table}, {"dx", dx});
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const in = dx.f32() + row * n.h;
    float* const token = dtokens_table.f32() + tokens.i32()[row] * n.h;
    float* const position = dpositions_table.f32() + row % n.s * n.h;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n.h; ++i) {
      token[i] += in[i];
      position[i] += in[i];
    }
  }
}

}  // namespace lockstep::cpu
