#pragma once

/// Argument checks for the kernels in kernels.h, shared by all devices. Each function has the name
/// of a kernel, returns the sizes that the kernel needs, and throws std::invalid_argument, with the
/// kernel's name and both shapes, if an argument does not fit. Element values are not checked.

#include "kernels/kernels.h"

namespace lockstep::arguments {

/// The size of a matrix, or of a view flattened to one.
struct Matrix {
  std::int64_t rows, columns;
};
struct Linear {
  std::int64_t rows, in, out;
};
struct Attention {
  std::int64_t b, s, heads;
  std::int64_t groups;  ///< heads of k and v; each serves heads / groups query heads
  std::int64_t d;
  float scale;         ///< 1 / √d
  bool probabilities;  ///< whether the caller passed memory for the probabilities

  /// Returns the first query head of a group.
  std::int64_t first_head(std::int64_t group) const { return group * (heads / groups); }
};
/// A block of attention: `s` is the number of the block's queries.
struct BlockOfAttention : Attention {
  std::int64_t keys;
  bool causal;
};
/// A merge of `s` rows per sequence, from row `first`, into sequences of `rows` rows.
struct Merge : Attention {
  std::int64_t first, rows;
};
/// `rows` rows of heads of d columns. There are `positions` positions, one for each row, or one for
/// each row of a sequence, and `table` rows of the table.
struct Rotary {
  std::int64_t rows, positions, heads, d, table;
};
/// N rows of width h, M rows in the experts' order, E experts of which each row chose k.
struct Experts {
  std::int64_t rows, h, slots, experts, k;
};
struct Embedding {
  std::int64_t rows, s, h, vocabulary;
};

Linear linear_forward(View x, View w, View bias, View y, WeightLayout layout);
Linear linear_backward_input(View dy, View w, View dx, WeightLayout layout);
Linear linear_backward_weight(View x, View dy, View dw, View db, WeightLayout layout);

Matrix layernorm_forward(View x, View gain, View bias, View y, View mean, View rstd);
Matrix layernorm_backward_input(View dy, View x, View gain, View mean, View rstd, View dx);
Matrix layernorm_backward_weight(View dy, View x, View mean, View rstd, View dgain, View dbias);

Matrix rmsnorm_forward(View x, View gain, View y, View rstd);
Matrix rmsnorm_backward_input(View dy, View x, View gain, View rstd, View dx);
Matrix rmsnorm_backward_weight(View dy, View x, View rstd, View dgain);

/// Return the size of y, (N, f).
Matrix swiglu_forward(View x, View y);
Matrix swiglu_backward(View x, View dy, View dx);

Rotary rotary(View x, int heads, View table, View positions);

Attention attention_forward(View q, View k, View v, int heads, View y, View lse,
                            View probabilities);
Attention attention_backward(View dy, View q, View k, View v, View y, View lse, View probabilities,
                             int heads, View dq, View dk, View dv);

BlockOfAttention attention_block_forward(View q, View k, View v, int heads,
                                         const AttentionBlock& block, View visible, View y,
                                         View lse);
Merge attention_merge(View y_part, View lse_part, int heads, std::int64_t first, View y, View lse);
BlockOfAttention attention_block_backward(View dy, View q, View k, View v, View y, View lse,
                                          int heads, const AttentionBlock& block, View visible,
                                          View dq, View dk, View dv);

Embedding embedding_forward(View tokens, View tokens_table, View positions_table, View x);
Embedding embedding_backward(View tokens, View dx, View dtokens_table, View dpositions_table);

/// `positions_table` and its gradient may be empty.
Embedding embedding_part_forward(View tokens, const VocabularyPart& part, View tokens_table,
                                 View positions_table, View x);
Embedding embedding_part_backward(View tokens, const VocabularyPart& part, View dx,
                                  View dtokens_table, View dpositions_table);

Matrix cross_entropy_forward(View logits, View targets, View losses, View lse);
Matrix cross_entropy_backward(View logits, View targets, View lse, View dlogits);

Matrix cross_entropy_part_forward(View logits, View targets, const VocabularyPart& part,
                                  View statistics);
/// Returns (ranks, N).
Matrix cross_entropy_merge(View statistics, View losses, View lse);
Matrix cross_entropy_part_backward(View logits, View targets, const VocabularyPart& part, View lse,
                                   View dlogits);

Experts router_forward(View logits, View probabilities, View experts, View gaps);
Experts router_backward(View probabilities, View experts, View dweights, View balance,
                        View dlogits);
Experts gather_rows(View x, View rows, View y);
/// `probabilities` and `experts` may both be empty.
Experts combine_rows(View x, View slots, View probabilities, View experts, View y);
Experts combine_rows_backward(View dy, View x, View slots, View probabilities, View experts,
                              View dx, View dweights);

// The checks of elementwise kernels return the number of elements.
std::int64_t gelu_forward(View x, View y);
std::int64_t gelu_backward(View x, View dy, View dx);
std::int64_t add(View a, View b, View y);
/// The check for kernels that take one view: scale and fill. Error messages name
/// `kernel`.
std::int64_t one_view(const char* kernel, View x);
Matrix copy(View from, View to);
Matrix convert(View from, View to);
/// Checks one tensor; returns its number of elements.
std::int64_t adamw(const AdamWTensor& tensor, const AdamWStep& step);
/// The check for kernels that reduce each of several views to a double.
void sums(const char* kernel, const Ins& xs, View sums);

}  // namespace lockstep::arguments
