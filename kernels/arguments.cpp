#include "kernels/arguments.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "kernels/check.h"

namespace lockstep::arguments {
namespace {

void want_one_per_column(const char* kernel, Named per_column, Named x) {
  want_contiguous(kernel, {per_column});
  want(kernel, per_column.view.elements() == x.view.shape.last(), per_column, x,
       "there must be one element for each column");
}

Matrix matrix(const View& view) {
  return {view.shape.rows(), view.shape.last()};
}

/// Checks that the three matrices of a linear layer fit together, and returns their sizes. `x` is x
/// or dx, `y` is y or dy, `w` is w or dw.
Linear linear(const char* kernel, Named x, Named w, Named y, WeightLayout layout) {
  want_strided(kernel, {x, y});
  want_contiguous(kernel, {w});
  const Linear n{x.view.shape.rows(), x.view.shape.last(), y.view.shape.last()};
  const bool in_out = layout == WeightLayout::in_out;
  const bool two = w.view.shape.rank() == 2;
  want(kernel, two && w.view.shape[in_out ? 0 : 1] == n.in, x, w,
       in_out ? "w must be (in, out), with as many rows as x has columns"
              : "w must be (out, in), with as many columns as x");
  want(kernel, two && w.view.shape[in_out ? 1 : 0] == n.out, y, w,
       in_out ? "w must be (in, out), with as many columns as y"
              : "w must be (out, in), with as many rows as y has columns");
  want(kernel, n.rows == y.view.shape.rows(), x, y, "both must have the same number of rows");
  return n;
}

Attention attention(const char* kernel, Named q, std::initializer_list<Named> same_as_q,
                    Named probabilities, int heads) {
  want_strided(kernel, {q});
  want_strided(kernel, same_as_q);
  for (const Named& other : same_as_q)
    want(kernel, other.view.shape.rank() == 3 && other.view.shape == q.view.shape, other, q,
         "both must be (b, s, h)");
  const std::int64_t h = q.view.shape.last();
  if (heads < 1 || h % heads != 0)
    throw std::invalid_argument(
        fmt::format("{}: {} heads do not divide the {} columns of q", kernel, heads, h));
  Attention n{q.view.shape[0], q.view.shape[1], heads, h / heads, 0.0F, false};
  n.scale = 1.0F / std::sqrt(static_cast<float>(n.d));
  n.probabilities = probabilities.view.elements() != 0;
  if (n.probabilities) {
    want_statistics(kernel, {probabilities});
    want(kernel, probabilities.view.shape == Shape{n.b, n.heads, n.s, n.s}, probabilities, q,
         "probabilities must be (b, heads, s, s)");
  }
  return n;
}

void want_lse(const char* kernel, const Attention& n, Named lse, Named q) {
  want_statistics(kernel, {lse});
  want(kernel, lse.view.shape == Shape{n.b, n.heads, n.s}, lse, q, "lse must be (b, heads, s)");
}

/// Checks that the block's rows are rows of q and k, and that the others have the shape of k.
BlockOfAttention block_of_attention(const char* kernel, Named q, Named k,
                                    std::initializer_list<Named> same_as_k, int heads,
                                    const AttentionBlock& block) {
  const Shape &of_q = q.view.shape, &of_k = k.view.shape;
  want(kernel, of_q.rank() == 3 && of_k.rank() == 3 && of_k[0] == of_q[0] && of_k[2] == of_q[2], k,
       q, "both must be (b, s, h), and may differ only in s");
  BlockOfAttention n{attention(kernel, q, {}, {"probabilities", View{}}, heads), block.keys,
                     block.causal};
  attention(kernel, k, same_as_k, {"probabilities", View{}}, heads);
  const auto inside = [](std::int64_t first, std::int64_t count, const Shape& shape) {
    return first >= 0 && count >= 0 && first + count <= shape[1];
  };
  if (!inside(block.first_query, block.queries, of_q) ||
      !inside(block.first_key, block.keys, of_k) || block.keys == 0)
    throw std::invalid_argument(fmt::format(
        "{}: the block of queries [{}, {}) and keys [{}, {}) does not fit q ({}, {}, {}) and k "
        "({}, {}, {}): its rows must be theirs, and there must be a key",
        kernel, block.first_query, block.first_query + block.queries, block.first_key,
        block.first_key + block.keys, of_q[0], of_q[1], of_q[2], of_k[0], of_k[1], of_k[2]));
  if (block.causal && block.keys != block.queries)
    throw std::invalid_argument(
        fmt::format("{}: a causal block of {} queries and {} keys: it must have as many keys as "
                    "queries",
                    kernel, block.queries, block.keys));
  n.s = block.queries;
  return n;
}

Embedding embedding_without_positions(const char* kernel, Named tokens, Named table, Named x) {
  want_indices(kernel, tokens);
  want_contiguous(kernel, {table, x});
  const Embedding n{x.view.shape.rows(), tokens.view.shape.last(), x.view.shape.last(),
                    table.view.shape.rows()};
  want(kernel, tokens.view.elements() == n.rows, tokens, x, "there must be one token for each row");
  want(kernel, table.view.shape.last() == n.h, table, x, "both must have h columns");
  return n;
}

Embedding embedding(const char* kernel, Named tokens, Named table, Named positions, Named x) {
  want_indices(kernel, tokens);
  want_contiguous(kernel, {table, positions, x});
  const Embedding n = embedding_without_positions(kernel, tokens, table, x);
  want(kernel, positions.view.shape.last() == n.h, positions, x, "both must have h columns");
  want(kernel, positions.view.shape.rows() >= n.s, positions, tokens,
       "there must be a position for each of the s tokens of a sequence");
  return n;
}

Embedding embedding_part(const char* kernel, Named tokens, const VocabularyPart& part, Named table,
                         Named positions, Named x) {
  const Embedding n = positions.view ? embedding(kernel, tokens, table, positions, x)
                                     : embedding_without_positions(kernel, tokens, table, x);
  want(kernel, part.first >= 0 && part.count >= 0 && part.count <= n.vocabulary, table, x,
       "the table must have a row for each token of the part");
  return n;
}

void want_targets(const char* kernel, Named targets, Named logits) {
  want_indices(kernel, targets);
  want(kernel, targets.view.elements() == logits.view.shape.rows(), targets, logits,
       "there must be one target for each row");
}

}  // namespace

Linear linear_forward(View x, View w, View bias, View y, WeightLayout layout) {
  constexpr const char* kernel = "linear_forward";
  const Linear n = linear(kernel, {"x", x}, {"w", w}, {"y", y}, layout);
  if (bias) want_one_per_column(kernel, {"bias", bias}, {"y", y});
  return n;
}

Linear linear_backward_input(View dy, View w, View dx, WeightLayout layout) {
  return linear("linear_backward_input", {"dx", dx}, {"w", w}, {"dy", dy}, layout);
}

Linear linear_backward_weight(View x, View dy, View dw, View db, WeightLayout layout) {
  constexpr const char* kernel = "linear_backward_weight";
  const Linear n = linear(kernel, {"x", x}, {"dw", dw}, {"dy", dy}, layout);
  if (db) want_one_per_column(kernel, {"db", db}, {"dy", dy});
  return n;
}

Matrix layernorm_forward(View x, View gain, View bias, View y, View mean, View rstd) {
  constexpr const char* kernel = "layernorm_forward";
  want_contiguous(kernel, {{"x", x}, {"y", y}});
  want_same_rows(kernel, {"y", y}, {"x", x});
  want_one_per_column(kernel, {"gain", gain}, {"x", x});
  want_one_per_column(kernel, {"bias", bias}, {"x", x});
  want_one_per_row(kernel, {"mean", mean}, {"x", x});
  want_one_per_row(kernel, {"rstd", rstd}, {"x", x});
  return matrix(x);
}

Matrix layernorm_backward_input(View dy, View x, View gain, View mean, View rstd, View dx) {
  constexpr const char* kernel = "layernorm_backward_input";
  want_contiguous(kernel, {{"dy", dy}, {"x", x}, {"dx", dx}});
  want_same_rows(kernel, {"dy", dy}, {"x", x});
  want_same_rows(kernel, {"dx", dx}, {"x", x});
  want_one_per_column(kernel, {"gain", gain}, {"x", x});
  want_one_per_row(kernel, {"mean", mean}, {"x", x});
  want_one_per_row(kernel, {"rstd", rstd}, {"x", x});
  return matrix(x);
}

Matrix layernorm_backward_weight(View dy, View x, View mean, View rstd, View dgain, View dbias) {
  constexpr const char* kernel = "layernorm_backward_weight";
  want_contiguous(kernel, {{"dy", dy}, {"x", x}});
  want_same_rows(kernel, {"dy", dy}, {"x", x});
  want_one_per_column(kernel, {"dgain", dgain}, {"x", x});
  want_one_per_column(kernel, {"dbias", dbias}, {"x", x});
  want_one_per_row(kernel, {"mean", mean}, {"x", x});
  want_one_per_row(kernel, {"rstd", rstd}, {"x", x});
  return matrix(x);
}

Attention attention_forward(View q, View k, View v, int heads, View y, View lse,
                            View probabilities) {
  constexpr const char* kernel = "attention_forward";
  const Attention n = attention(kernel, {"q", q}, {{"k", k}, {"v", v}, {"y", y}},
                                {"probabilities", probabilities}, heads);
  want_lse(kernel, n, {"lse", lse}, {"q", q});
  return n;
}

Attention attention_backward(View dy, View q, View k, View v, View y, View lse, View probabilities,
                             int heads, View dq, View dk, View dv) {
  constexpr const char* kernel = "attention_backward";
  const Attention n =
      attention(kernel, {"q", q},
                {{"k", k}, {"v", v}, {"y", y}, {"dy", dy}, {"dq", dq}, {"dk", dk}, {"dv", dv}},
                {"probabilities", probabilities}, heads);
  if (!n.probabilities) want_lse(kernel, n, {"lse", lse}, {"q", q});
  return n;
}

BlockOfAttention attention_block_forward(View q, View k, View v, int heads,
                                         const AttentionBlock& block, View y, View lse) {
  constexpr const char* kernel = "attention_block_forward";
  const BlockOfAttention n =
      block_of_attention(kernel, {"q", q}, {"k", k}, {{"v", v}}, heads, block);
  want_strided(kernel, {{"y", y}});
  want(kernel, y.shape == Shape{n.b, n.s, q.shape.last()}, {"y", y}, {"q", q},
       "y must be (b, queries, h)");
  want_lse(kernel, n, {"lse", lse}, {"y", y});
  return n;
}

Merge attention_merge(View y_part, View lse_part, int heads, std::int64_t first, View y, View lse) {
  constexpr const char* kernel = "attention_merge";
  const Shape &whole = y.shape, &part = y_part.shape;
  want(kernel,
       whole.rank() == 3 && part.rank() == 3 && whole[0] == part[0] && whole[2] == part[2] &&
           first >= 0 && first + part[1] <= whole[1],
       {"y_part", y_part}, {"y", y}, "its rows must be rows of y, from row `first`");
  Merge n{attention(kernel, {"y_part", y_part}, {}, {"probabilities", View{}}, heads), first, 0};
  want_lse(kernel, n, {"lse_part", lse_part}, {"y_part", y_part});
  want_contiguous(kernel, {{"y_part", y_part}, {"y", y}});
  n.rows = whole[1];
  want_statistics(kernel, {{"lse", lse}});
  want(kernel, lse.shape == Shape{n.b, n.heads, n.rows}, {"lse", lse}, {"y", y},
       "lse must be (b, heads, s)");
  return n;
}

BlockOfAttention attention_block_backward(View dy, View q, View k, View v, View y, View lse,
                                          int heads, const AttentionBlock& block, View dq, View dk,
                                          View dv) {
  constexpr const char* kernel = "attention_block_backward";
  attention(kernel, {"q", q}, {{"y", y}, {"dy", dy}, {"dq", dq}}, {"probabilities", View{}}, heads);
  const BlockOfAttention n = block_of_attention(kernel, {"q", q}, {"k", k},
                                                {{"v", v}, {"dk", dk}, {"dv", dv}}, heads, block);
  want_statistics(kernel, {{"lse", lse}});
  want(kernel, lse.shape == Shape{n.b, n.heads, q.shape[1]}, {"lse", lse}, {"q", q},
       "lse must be (b, heads, s)");
  return n;
}

Embedding embedding_forward(View tokens, View tokens_table, View positions_table, View x) {
  return embedding("embedding_forward", {"tokens", tokens}, {"tokens_table", tokens_table},
                   {"positions_table", positions_table}, {"x", x});
}

Embedding embedding_backward(View tokens, View dx, View dtokens_table, View dpositions_table) {
  return embedding("embedding_backward", {"tokens", tokens}, {"dtokens_table", dtokens_table},
                   {"dpositions_table", dpositions_table}, {"dx", dx});
}

Embedding embedding_part_forward(View tokens, const VocabularyPart& part, View tokens_table,
                                 View positions_table, View x) {
  return embedding_part("embedding_part_forward", {"tokens", tokens}, part,
                        {"tokens_table", tokens_table}, {"positions_table", positions_table},
                        {"x", x});
}

Embedding embedding_part_backward(View tokens, const VocabularyPart& part, View dx,
                                  View dtokens_table, View dpositions_table) {
  return embedding_part("embedding_part_backward", {"tokens", tokens}, part,
                        {"dtokens_table", dtokens_table}, {"dpositions_table", dpositions_table},
                        {"dx", dx});
}

Matrix cross_entropy_forward(View logits, View targets, View losses, View lse) {
  constexpr const char* kernel = "cross_entropy_forward";
  want_strided(kernel, {{"logits", logits}});
  want_statistics(kernel, {{"losses", losses}, {"lse", lse}});
  want_targets(kernel, {"targets", targets}, {"logits", logits});
  want_same_elements(kernel, {"losses", losses}, {"targets", targets});
  want_same_elements(kernel, {"lse", lse}, {"targets", targets});
  return matrix(logits);
}

Matrix cross_entropy_backward(View logits, View targets, View lse, View dlogits) {
  constexpr const char* kernel = "cross_entropy_backward";
  want_strided(kernel, {{"logits", logits}, {"dlogits", dlogits}});
  want_statistics(kernel, {{"lse", lse}});
  want_targets(kernel, {"targets", targets}, {"logits", logits});
  want_same_elements(kernel, {"lse", lse}, {"targets", targets});
  want_same_rows(kernel, {"dlogits", dlogits}, {"logits", logits});
  return matrix(logits);
}

Matrix cross_entropy_part_forward(View logits, View targets, const VocabularyPart& part,
                                  View statistics) {
  constexpr const char* kernel = "cross_entropy_part_forward";
  want_strided(kernel, {{"logits", logits}});
  want_statistics(kernel, {{"statistics", statistics}});
  want_targets(kernel, {"targets", targets}, {"logits", logits});
  want(kernel, statistics.elements() == 3 * logits.shape.rows(), {"statistics", statistics},
       {"logits", logits}, "there must be three statistics for each row");
  want(kernel, part.first >= 0 && part.count >= 0 && part.count <= logits.shape.last(),
       {"logits", logits}, {"statistics", statistics},
       "there must be a column for each token of the part");
  return matrix(logits);
}

Matrix cross_entropy_merge(View statistics, View losses, View lse) {
  constexpr const char* kernel = "cross_entropy_merge";
  want_statistics(kernel, {{"statistics", statistics}, {"losses", losses}, {"lse", lse}});
  want_same_elements(kernel, {"lse", lse}, {"losses", losses});
  const std::int64_t each = 3 * losses.elements();
  want(kernel, each > 0 && statistics.elements() % each == 0, {"statistics", statistics},
       {"losses", losses}, "each rank must have three statistics for each loss");
  return {statistics.elements() / each, losses.elements()};
}

Matrix cross_entropy_part_backward(View logits, View targets, const VocabularyPart& part, View lse,
                                   View dlogits) {
  constexpr const char* kernel = "cross_entropy_part_backward";
  want_strided(kernel, {{"logits", logits}, {"dlogits", dlogits}});
  want_statistics(kernel, {{"lse", lse}});
  want_targets(kernel, {"targets", targets}, {"logits", logits});
  want_same_elements(kernel, {"lse", lse}, {"targets", targets});
  want_same_rows(kernel, {"dlogits", dlogits}, {"logits", logits});
  want(kernel, part.first >= 0 && part.count >= 0 && part.count <= logits.shape.last(),
       {"logits", logits}, {"dlogits", dlogits},
       "there must be a column for each token of the part");
  return matrix(logits);
}

std::int64_t gelu_forward(View x, View y) {
  want_contiguous("gelu_forward", {{"x", x}, {"y", y}});
  want_same_elements("gelu_forward", {"y", y}, {"x", x});
  return x.elements();
}

std::int64_t gelu_backward(View x, View dy, View dx) {
  want_contiguous("gelu_backward", {{"x", x}, {"dy", dy}, {"dx", dx}});
  want_same_elements("gelu_backward", {"dy", dy}, {"x", x});
  want_same_elements("gelu_backward", {"dx", dx}, {"x", x});
  return x.elements();
}

std::int64_t add(View a, View b, View y) {
  want_contiguous("add", {{"a", a}, {"b", b}, {"y", y}});
  want_same_elements("add", {"a", a}, {"b", b});
  want_same_elements("add", {"y", y}, {"a", a});
  return a.elements();
}

std::int64_t one_view(const char* kernel, View x) {
  want_contiguous(kernel, {{"x", x}});
  return x.elements();
}

Matrix copy(View from, View to) {
  want_copyable("copy", {"from", from}, {"to", to});
  return matrix(from);
}

Matrix convert(View from, View to) {
  want_strided("convert", {{"from", from}, {"to", to}});
  want_same_rows("convert", {"to", to}, {"from", from});
  return matrix(from);
}

std::int64_t adamw(const AdamWTensor& tensor, const AdamWStep& step) {
  const Named p{"parameter", tensor.parameter}, gradient{"gradient", tensor.gradient};
  const Named momentum{"momentum", tensor.momentum}, variance{"variance", tensor.variance};
  want_contiguous("adamw", {p, gradient});
  want_statistics("adamw", {momentum, variance});
  for (const Named& each : {gradient, momentum, variance}) want_same_elements("adamw", each, p);
  if (const Named rounded{"rounded", tensor.rounded}; tensor.rounded) {
    want_contiguous("adamw", {rounded});
    want_same_elements("adamw", rounded, p);
  }
  if (step.step < 1) throw std::invalid_argument("adamw: steps are counted from 1");
  return tensor.parameter.elements();
}

void sums(const char* kernel, const Ins& xs, View sums) {
  for (const View& x : xs) want_contiguous(kernel, {{"x", x}});
  want_statistics(kernel, {{"sums", sums}});
  const auto n = static_cast<std::int64_t>(xs.size());
  if (sums.elements() != 2 * n || reinterpret_cast<std::uintptr_t>(sums.data) % alignof(double))
    throw std::invalid_argument(
        fmt::format("{}: {} views need {} doubles, aligned to 8 bytes; sums has {} f32 elements",
                    kernel, n, n, sums.elements()));
}

}  // namespace lockstep::arguments
