/// Token and position embeddings: the forward pass adds one row from each table, and the backward
/// pass scatter-adds the gradients. Both move about 3 b s h elements. The scatter visits the tokens
/// in ascending order, so repeated tokens accumulate in a fixed order.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"

namespace lockstep::cpu {
namespace {

/// Checks all tokens before the kernel writes anything.
void want_tokens(const char* kernel, View tokens, const arguments::Embedding& n) {
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const std::int32_t token = tokens.i32()[row];
    if (token < 0 || token >= n.vocabulary)
      throw std::out_of_range(
          fmt::format("{}: token {} at (b, s) = ({}, {}) is outside the vocabulary [0, {})", kernel,
                      token, row / n.s, row % n.s, n.vocabulary));
  }
}

void embedding_forward(Queue, Indices tokens, In tokens_table, In positions_table, Out x) {
  const auto n = arguments::embedding_forward(tokens, tokens_table, positions_table, x);
  want_tokens("embedding_forward", tokens, n);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const token = tokens_table.f32() + tokens.i32()[row] * n.h;
    const float* const position = positions_table.f32() + row % n.s * n.h;
    float* const out = x.f32() + row * n.h;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n.h; ++i) out[i] = token[i] + position[i];
  }
}

void embedding_backward(Queue, Indices tokens, In dx, InOut dtokens_table, InOut dpositions_table) {
  const auto n = arguments::embedding_backward(tokens, dx, dtokens_table, dpositions_table);
  want_tokens("embedding_backward", tokens, n);
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

void add_row(const float* from, float* to, std::int64_t h) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < h; ++i) to[i] += from[i];
}

void embedding_part_forward(Queue, Indices tokens, VocabularyPart part, In tokens_table,
                            In positions_table, Out x) {
  const auto n = arguments::embedding_part_forward(tokens, part, tokens_table, positions_table, x);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const std::int64_t mine = tokens.i32()[row] - part.first;
    float* const out = x.f32() + row * n.h;
    std::fill_n(out, n.h, 0.0F);
    if (mine >= 0 && mine < part.count) add_row(tokens_table.f32() + mine * n.h, out, n.h);
    if (positions_table) add_row(positions_table.f32() + row % n.s * n.h, out, n.h);
  }
}

void embedding_part_backward(Queue, Indices tokens, VocabularyPart part, In dx, InOut dtokens_table,
                             InOut dpositions_table) {
  const auto n =
      arguments::embedding_part_backward(tokens, part, dx, dtokens_table, dpositions_table);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const std::int64_t mine = tokens.i32()[row] - part.first;
    const float* const in = dx.f32() + row * n.h;
    if (mine >= 0 && mine < part.count) add_row(in, dtokens_table.f32() + mine * n.h, n.h);
    if (dpositions_table) add_row(in, dpositions_table.f32() + row % n.s * n.h, n.h);
  }
}

}  // namespace

void set_embedding(Kernels& kernels) {
  kernels.embedding_forward = embedding_forward;
  kernels.embedding_backward = embedding_backward;
  kernels.embedding_part_forward = embedding_part_forward;
  kernels.embedding_part_backward = embedding_part_backward;
}

}  // namespace lockstep::cpu
