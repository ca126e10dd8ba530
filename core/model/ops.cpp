#include "core/model/ops.h"

namespace lockstep {

namespace {

/// Returns the cost of an operation that only moves `bytes`.
Cost moved(std::size_t bytes) {
  return {.flops = 0, .bytes = static_cast<double>(bytes)};
}

/// Returns the number of heads of k.
std::int64_t groups_of(View q, View k, int heads) {
  return k.shape.last() * heads / q.shape.last();
}

/// Returns the number of visible pairs, or nothing without document masks.
std::optional<std::int64_t> pairs_if(View visible, std::int64_t pairs) {
  return visible.elements() > 0 ? std::optional(pairs) : std::nullopt;
}

}  // namespace

void Ops::linear_forward(View x, View w, View bias, View y, WeightLayout layout) const {
  launch("linear",
         cost::linear_forward(x.shape.rows(), x.shape.last(), y.shape.last(), bias.elements() > 0,
                              size_of(x.dtype)),
         &Kernels::linear_forward, x, w, bias, y, layout);
}
void Ops::linear_backward_input(View dy, View w, View dx, WeightLayout layout) const {
  launch("linear_backward_input",
         cost::linear_backward_input(dy.shape.rows(), dx.shape.last(), dy.shape.last(),
                                     size_of(dx.dtype)),
         &Kernels::linear_backward_input, dy, w, dx, layout);
}
void Ops::linear_backward_weight(View x, View dy, View dw, View db, WeightLayout layout) const {
  launch("linear_backward_weight",
         cost::linear_backward_weight(x.shape.rows(), x.shape.last(), dy.shape.last(),
                                      db.elements() > 0, size_of(x.dtype)),
         &Kernels::linear_backward_weight, x, dy, dw, db, layout);
}

void Ops::layernorm_forward(View x, View gain, View bias, View y, View mean, View rstd) const {
  launch("layernorm", &Kernels::layernorm_forward, x, gain, bias, y, mean, rstd);
}
void Ops::layernorm_backward_input(View dy, View x, View gain, View mean, View rstd,
                                   View dx) const {
  launch("layernorm_backward_input", &Kernels::layernorm_backward_input, dy, x, gain, mean, rstd,
         dx);
}
bool Ops::fuses() const {
  return !device_.compute.clock().is_modelled() &&
         device_.compute.kernels().layernorm_backward_input_add;
}
void Ops::add_layernorm_forward(View a, View b, View sum, View gain, View bias, View y, View mean,
                                View rstd) const {
  launch("add_layernorm", &Kernels::add_layernorm_forward, a, b, sum, gain, bias, y, mean, rstd);
}
void Ops::layernorm_backward_input_add(View dy, View x, View gain, View mean, View rstd, View other,
                                       View dx) const {
  launch("layernorm_backward_input_add", &Kernels::layernorm_backward_input_add, dy, x, gain, mean,
         rstd, other, dx);
}
void Ops::layernorm_backward_weight(View dy, View x, View mean, View rstd, View dgain,
                                    View dbias) const {
  launch("layernorm_backward_weight", &Kernels::layernorm_backward_weight, dy, x, mean, rstd, dgain,
         dbias);
}

void Ops::rmsnorm_forward(View x, View gain, float epsilon, View y, View rstd) const {
  launch("rmsnorm", &Kernels::rmsnorm_forward, x, gain, epsilon, y, rstd);
}
void Ops::rmsnorm_backward_input(View dy, View x, View gain, View rstd, View dx) const {
  launch("rmsnorm_backward_input", &Kernels::rmsnorm_backward_input, dy, x, gain, rstd, dx);
}
void Ops::rmsnorm_backward_weight(View dy, View x, View rstd, View dgain) const {
  launch("rmsnorm_backward_weight", &Kernels::rmsnorm_backward_weight, dy, x, rstd, dgain);
}

void Ops::gelu_forward(View x, View y) const {
  launch("gelu", &Kernels::gelu_forward, x, y);
}
void Ops::gelu_backward(View x, View dy, View dx) const {
  launch("gelu_backward", &Kernels::gelu_backward, x, dy, dx);
}

void Ops::swiglu_forward(View x, View y) const {
  launch("swiglu", &Kernels::swiglu_forward, x, y);
}
void Ops::swiglu_backward(View x, View dy, View dx) const {
  launch("swiglu_backward", &Kernels::swiglu_backward, x, dy, dx);
}

void Ops::rotary(View x, int heads, View table, View positions, bool inverse) const {
  // Reads each position's row of the table once, because it stays in a cache.
  const std::size_t rows = static_cast<std::size_t>(positions.elements());
  const std::size_t row = size_of(DType::f32) * static_cast<std::size_t>(table.shape.last());
  launch(inverse ? "rotary_backward" : "rotary",
         moved(2 * x.bytes() + positions.bytes() + rows * row), &Kernels::rotary, x, heads, table,
         positions, inverse);
}

void Ops::attention_forward(View q, View k, View v, int heads, View y, View lse,
                            View probabilities) const {
  launch("attention",
         cost::attention_forward(y.shape, heads, size_of(y.dtype), probabilities.elements() > 0,
                                 groups_of(q, k, heads)),
         &Kernels::attention_forward, q, k, v, heads, y, lse, probabilities);
}
void Ops::attention_backward(View dy, View q, View k, View v, View y, View lse, View probabilities,
                             int heads, View dq, View dk, View dv) const {
  launch("attention_backward",
         cost::attention_backward(y.shape, heads, size_of(y.dtype), probabilities.elements() > 0,
                                  groups_of(q, k, heads)),
         &Kernels::attention_backward, dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
}

void Ops::attention_block_forward(View q, View k, View v, int heads, const AttentionBlock& block,
                                  View y, View lse, View visible, std::int64_t pairs) const {
  launch("attention_block",
         cost::attention_block_forward(q.shape, heads, block, size_of(y.dtype),
                                       groups_of(q, k, heads), pairs_if(visible, pairs)),
         &Kernels::attention_block_forward, q, k, v, heads, block, visible, y, lse);
}
void Ops::attention_merge(View y_part, View lse_part, int heads, std::int64_t first, View y,
                          View lse) const {
  // Reads the part, and reads and writes the same number of rows of y and lse.
  launch("attention_merge", moved(3 * (y_part.bytes() + lse_part.bytes())),
         &Kernels::attention_merge, y_part, lse_part, heads, first, y, lse);
}
void Ops::attention_block_backward(View dy, View q, View k, View v, View y, View lse, int heads,
                                   const AttentionBlock& block, View dq, View dk, View dv,
                                   View visible, std::int64_t pairs) const {
  launch("attention_block_backward",
         cost::attention_block_backward(q.shape, heads, block, size_of(y.dtype),
                                        groups_of(q, k, heads), pairs_if(visible, pairs)),
         &Kernels::attention_block_backward, dy, q, k, v, y, lse, heads, block, visible, dq, dk,
         dv);
}

void Ops::embedding_forward(View tokens, View tokens_table, View positions_table, View x) const {
  // Reads one row of each table for every row of x.
  launch("embedding", moved(tokens.bytes() + 3 * x.bytes()), &Kernels::embedding_forward, tokens,
         tokens_table, positions_table, x);
}
void Ops::embedding_backward(View tokens, View dx, View dtokens_table,
                             View dpositions_table) const {
  // Reads and writes one row of each table for every row of dx.
  launch("embedding_backward", moved(tokens.bytes() + 5 * dx.bytes()), &Kernels::embedding_backward,
         tokens, dx, dtokens_table, dpositions_table);
}

void Ops::embedding_part_forward(View tokens, VocabularyPart part, View tokens_table,
                                 View positions_table, View x) const {
  // Charges for every token, as if all were in the part, because the cost must not depend on the
  // tokens' values.
  launch("embedding_part",
         moved(tokens.bytes() + (positions_table.elements() > 0 ? 3 : 2) * x.bytes()),
         &Kernels::embedding_part_forward, tokens, part, tokens_table, positions_table, x);
}
void Ops::embedding_part_backward(View tokens, VocabularyPart part, View dx, View dtokens_table,
                                  View dpositions_table) const {
  launch("embedding_part_backward",
         moved(tokens.bytes() + (dpositions_table.elements() > 0 ? 5 : 3) * dx.bytes()),
         &Kernels::embedding_part_backward, tokens, part, dx, dtokens_table, dpositions_table);
}

void Ops::cross_entropy_forward(View logits, View targets, View losses, View lse) const {
  launch("cross_entropy", &Kernels::cross_entropy_forward, logits, targets, losses, lse);
}
void Ops::cross_entropy_backward(View logits, View targets, View lse, float scale,
                                 View dlogits) const {
  launch("cross_entropy_backward", &Kernels::cross_entropy_backward, logits, targets, lse, scale,
         dlogits);
}
void Ops::cross_entropy_part_forward(View logits, View targets, VocabularyPart part,
                                     View statistics) const {
  launch("cross_entropy_part", &Kernels::cross_entropy_part_forward, logits, targets, part,
         statistics);
}
void Ops::cross_entropy_merge(View statistics, View losses, View lse) const {
  launch("cross_entropy_merge", &Kernels::cross_entropy_merge, statistics, losses, lse);
}
void Ops::cross_entropy_part_backward(View logits, View targets, VocabularyPart part, View lse,
                                      float scale, View dlogits) const {
  launch("cross_entropy_part_backward", &Kernels::cross_entropy_part_backward, logits, targets,
         part, lse, scale, dlogits);
}

void Ops::router_forward(View logits, View probabilities, View experts, View gaps) const {
  launch("router", &Kernels::router_forward, logits, probabilities, experts, gaps);
}
void Ops::router_backward(View probabilities, View experts, View dweights, View balance,
                          View dlogits) const {
  launch("router_backward", &Kernels::router_backward, probabilities, experts, dweights, balance,
         dlogits);
}
void Ops::gather_rows(View x, View rows, View y) const {
  // Reads only the rows that it writes.
  launch("gather_rows", moved(rows.bytes() + 2 * y.bytes()), &Kernels::gather_rows, x, rows, y);
}
void Ops::combine_rows(View x, View slots, View probabilities, View experts, View y) const {
  launch("combine_rows", &Kernels::combine_rows, x, slots, probabilities, experts, y);
}
void Ops::combine_rows_backward(View dy, View x, View slots, View probabilities, View experts,
                                View dx, View dweights) const {
  launch("combine_rows_backward", &Kernels::combine_rows_backward, dy, x, slots, probabilities,
         experts, dx, dweights);
}

void Ops::add(View a, View b, View y) const {
  launch("add", &Kernels::add, a, b, y);
}
void Ops::copy(View from, View to) const {
  launch("copy", &Kernels::copy, from, to);
}
void Ops::fill(View x, float value) const {
  launch("fill", moved(x.bytes()), &Kernels::fill, x, value);
}
void Ops::sum(View x, View into) const {
  if (x) device_.compute.kernels().sums(device_.compute.queue(), {x}, into);
}

}  // namespace lockstep
