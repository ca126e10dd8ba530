/// The cost of each kernel, which Ops charges to the clock.

#include "core/model/ops.h"

namespace lockstep {
namespace {

double bytes_of(std::int64_t elements, std::size_t width) {
  return static_cast<double>(width) * static_cast<double>(elements);
}

double product_flops(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
}

/// Returns the cost of a product (m, k) by (k, n).
Cost product(std::int64_t m, std::int64_t n, std::int64_t k, double bytes) {
  return {product_flops(m, k, n), bytes, KernelKind::product, m, n, k};
}

Cost attention(std::int64_t queries, std::int64_t keys, std::int64_t head, double flops,
               double bytes) {
  return {flops, bytes, KernelKind::attention, queries, keys, head};
}

/// Returns the FLOPs of one (s, s) product over all heads. Attention is causal, so only half is
/// counted: b s² h.
double causal_product_flops(const Shape& y) {
  return static_cast<double>(y.elements()) * static_cast<double>(y[1]);
}

/// Returns the FLOPs of one product between the block's queries and keys, over all heads: 2 h for
/// each pair of a query and a key that it sees, which is half of all pairs in a causal block.
double block_product_flops(const Shape& q, const AttentionBlock& block,
                           std::optional<std::int64_t> pairs) {
  if (pairs) return product_flops(*pairs, q[2], 1);
  return product_flops(q[0] * block.queries, q[2], block.keys) / (block.causal ? 2 : 1);
}

/// Returns the columns of k. `groups` is its number of heads, or 0 if that equals q's.
std::int64_t key_columns(const Shape& q, int heads, std::int64_t groups) {
  return groups == 0 ? q[2] : q[2] / heads * groups;
}

/// Returns the bytes of `visible` that a block reads: a range for each of its queries.
double visible_bytes(const Shape& q, const AttentionBlock& block,
                     std::optional<std::int64_t> pairs) {
  return pairs ? bytes_of(2 * q[0] * block.queries, size_of(DType::i32)) : 0;
}

}  // namespace

Cost cost::linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias,
                          std::size_t width) {
  return product(rows, out, in,
                 bytes_of(rows * in + in * out + rows * out + (bias ? out : 0), width));
}
Cost cost::linear_backward_input(std::int64_t rows, std::int64_t in, std::int64_t out,
                                 std::size_t width) {
  return product(rows, in, out, bytes_of(rows * out + in * out + rows * in, width));
}
Cost cost::linear_backward_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias,
                                  std::size_t width) {
  // The weight gradient is read and written.
  return product(in, out, rows,
                 bytes_of(rows * in + rows * out + 2 * in * out + (bias ? 2 * out : 0), width));
}
Cost cost::attention_forward(const Shape& y, int heads, std::size_t width, bool probabilities,
                             std::int64_t groups) {
  // The kernel reads q, k, v; it writes y, lse and perhaps the probabilities.
  const std::int64_t rows = y.rows() * heads, of_k = y.rows() * key_columns(y, heads, groups);
  return attention(y[1], y[1], y[2] / heads, 2 * causal_product_flops(y),
                   bytes_of(2 * y.elements() + 2 * of_k, width) +
                       bytes_of(rows + (probabilities ? rows * y[1] : 0), 4));
}
Cost cost::attention_backward(const Shape& y, int heads, std::size_t width, bool probabilities,
                              std::int64_t groups) {
  // The kernel reads dy, q, k, v, y and either lse or the probabilities; it writes dq, dk, dv.
  const std::int64_t rows = y.rows() * heads, of_k = y.rows() * key_columns(y, heads, groups);
  return attention(y[1], y[1], y[2] / heads, (probabilities ? 4 : 5) * causal_product_flops(y),
                   bytes_of(4 * y.elements() + 4 * of_k, width) +
                       bytes_of(probabilities ? rows * y[1] : rows, 4));
}

Cost cost::attention_block_forward(const Shape& q, int heads, const AttentionBlock& block,
                                   std::size_t width, std::int64_t groups,
                                   std::optional<std::int64_t> pairs) {
  // The kernel reads q, k, v; it writes y and lse.
  const std::int64_t of_q = q[2] * block.queries, of_k = key_columns(q, heads, groups) * block.keys;
  return attention(block.queries, block.keys, q[2] / heads,
                   2 * block_product_flops(q, block, pairs),
                   bytes_of(q[0] * (2 * of_q + 2 * of_k), width) +
                       bytes_of(q[0] * heads * block.queries, 4) + visible_bytes(q, block, pairs));
}
Cost cost::attention_block_backward(const Shape& q, int heads, const AttentionBlock& block,
                                    std::size_t width, std::int64_t groups,
                                    std::optional<std::int64_t> pairs) {
  // The kernel reads dy, q, y, k, v and lse; it reads and writes dq, dk, dv.
  const std::int64_t of_q = q[2] * block.queries, of_k = key_columns(q, heads, groups) * block.keys;
  return attention(block.queries, block.keys, q[2] / heads,
                   5 * block_product_flops(q, block, pairs),
                   bytes_of(q[0] * (5 * of_q + 6 * of_k), width) +
                       bytes_of(q[0] * heads * block.queries, 4) + visible_bytes(q, block, pairs));
}

}  // namespace lockstep
