#include "kernels/arguments.h"

#include <fmt/format.h>

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

/// Checks a matrix x, other matrices of its shape, vectors with an element for each column, and
/// statistics with an element for each row.
Matrix normalization(const char* kernel, Named x, std::initializer_list<Named> same_as_x,
                     std::initializer_list<Named> per_column,
                     std::initializer_list<Named> per_row) {
  want_contiguous(kernel, {x});
  want_contiguous(kernel, same_as_x);
  for (const Named& other : same_as_x) want_same_rows(kernel, other, x);
  for (const Named& vector : per_column) want_one_per_column(kernel, vector, x);
  for (const Named& statistic : per_row) want_one_per_row(kernel, statistic, x);
  return matrix(x.view);
}

/// Checks a gate and up, side by side in x, and their product y or its gradient. Returns the size
/// of y.
Matrix gated(const char* kernel, Named x, Named y) {
  want_contiguous(kernel, {x, y});
  want(kernel,
       x.view.shape.rows() == y.view.shape.rows() && x.view.shape.last() == 2 * y.view.shape.last(),
       x, y, "it must have the same rows, and twice the columns");
  return matrix(y.view);
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
  return normalization("layernorm_forward", {"x", x}, {{"y", y}}, {{"gain", gain}, {"bias", bias}},
                       {{"mean", mean}, {"rstd", rstd}});
}

Matrix layernorm_backward_input(View dy, View x, View gain, View mean, View rstd, View dx) {
  return normalization("layernorm_backward_input", {"x", x}, {{"dy", dy}, {"dx", dx}},
                       {{"gain", gain}}, {{"mean", mean}, {"rstd", rstd}});
}

Matrix layernorm_backward_weight(View dy, View x, View mean, View rstd, View dgain, View dbias) {
  return normalization("layernorm_backward_weight", {"x", x}, {{"dy", dy}},
                       {{"dgain", dgain}, {"dbias", dbias}}, {{"mean", mean}, {"rstd", rstd}});
}

Matrix rmsnorm_forward(View x, View gain, View y, View rstd) {
  return normalization("rmsnorm_forward", {"x", x}, {{"y", y}}, {{"gain", gain}}, {{"rstd", rstd}});
}

Matrix rmsnorm_backward_input(View dy, View x, View gain, View rstd, View dx) {
  return normalization("rmsnorm_backward_input", {"x", x}, {{"dy", dy}, {"dx", dx}},
                       {{"gain", gain}}, {{"rstd", rstd}});
}

Matrix rmsnorm_backward_weight(View dy, View x, View rstd, View dgain) {
  return normalization("rmsnorm_backward_weight", {"x", x}, {{"dy", dy}}, {{"dgain", dgain}},
                       {{"rstd", rstd}});
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

Matrix swiglu_forward(View x, View y) {
  return gated("swiglu_forward", {"x", x}, {"y", y});
}

Matrix swiglu_backward(View x, View dy, View dx) {
  constexpr const char* kernel = "swiglu_backward";
  want_contiguous(kernel, {{"dx", dx}});
  want_same_rows(kernel, {"dx", dx}, {"x", x});
  return gated(kernel, {"x", x}, {"dy", dy});
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
