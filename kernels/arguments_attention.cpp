#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/check.h"

/// The checks of the attention kernels, and of the rotary positions of their queries and keys.

namespace lockstep::arguments {
namespace {

/// Requires strided views of three extents, all the same.
void want_shape_of(const char* kernel, std::initializer_list<Named> others, Named view) {
  want_strided(kernel, {view});
  want_strided(kernel, others);
  for (const Named& other : others)
    want(kernel, other.view.shape.rank() == 3 && other.view.shape == view.view.shape, other, view,
         "both must be (b, s, columns)");
}

/// Checks how the heads of q and k fit together, and returns the sizes, without probabilities.
Attention heads_of(const char* kernel, Named q, Named k, int heads) {
  const Shape &of_q = q.view.shape, &of_k = k.view.shape;
  want(kernel, of_q.rank() == 3 && of_k.rank() == 3 && of_q[0] == of_k[0], k, q,
       "q must be (b, s, h) and k (b, s', g d), with the same b");
  const std::int64_t h = of_q[2], groups = h == 0 ? heads : of_k[2] * heads / h;
  want(kernel, groups * h == of_k[2] * heads && (heads < 1 || (groups > 0 && heads % groups == 0)),
       k, q, "its heads must be as wide as those of q, whose number they must divide");
  if (heads < 1 || h % heads != 0)
    throw std::invalid_argument(
        fmt::format("{}: {} heads do not divide the {} columns of {}", kernel, heads, h, q.name));
  const std::int64_t d = h / heads;
  return {.b = of_q[0],
          .s = of_q[1],
          .heads = heads,
          .groups = groups,
          .d = d,
          .scale = 1.0F / std::sqrt(static_cast<float>(d)),
          .probabilities = false};
}

/// Checks the arguments of causal attention, in which k has as many rows as q.
Attention attention(const char* kernel, Named q, std::initializer_list<Named> same_as_q, Named k,
                    std::initializer_list<Named> same_as_k, Named probabilities, int heads) {
  want_shape_of(kernel, same_as_q, q);
  want_shape_of(kernel, same_as_k, k);
  Attention n = heads_of(kernel, q, k, heads);
  want(kernel, k.view.shape[1] == n.s, k, q, "both must have s rows per sequence");
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

/// Checks that the block's rows lie within q and k, and that the other views have the shapes of q
/// and k.
BlockOfAttention block_of_attention(const char* kernel, Named q,
                                    std::initializer_list<Named> same_as_q, Named k,
                                    std::initializer_list<Named> same_as_k, int heads,
                                    const AttentionBlock& block, Named visible) {
  want_shape_of(kernel, same_as_q, q);
  want_shape_of(kernel, same_as_k, k);
  BlockOfAttention n{heads_of(kernel, q, k, heads), block.keys, block.causal};
  const Shape &of_q = q.view.shape, &of_k = k.view.shape;
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
  if (visible.view.elements() != 0) {
    want_indices(kernel, visible);
    want(kernel, visible.view.shape == Shape{n.b, of_q[1], 2}, visible, q,
         "visible must be (b, s, 2)");
    if (block.causal)
      throw std::invalid_argument(fmt::format(
          "{}: a causal block has no `visible`, whose ranges end at the diagonal", kernel));
  }
  n.s = block.queries;
  return n;
}

}  // namespace

Rotary rotary(View x, int heads, View table, View positions) {
  constexpr const char* kernel = "rotary";
  want_strided(kernel, {{"x", x}});
  want_statistics(kernel, {{"table", table}});
  const std::int64_t d = table.shape[1];
  want(kernel, x.shape.rank() == 3 && table.shape.rank() == 2 && d * heads == x.shape[2],
       {"table", table}, {"x", x}, "x must be (b, s, h), and table (P, h / heads)");
  want(kernel, d % 2 == 0, {"table", table}, {"x", x},
       "a head must have an even number of columns");
  want_indices(kernel, {"positions", positions});
  want(kernel,
       positions.shape == Shape{x.shape[1]} || positions.shape == Shape{x.shape[0], x.shape[1]},
       {"positions", positions}, {"x", x}, "positions must be (s) or (b, s)");
  return {.rows = x.shape.rows(),
          .positions = positions.elements(),
          .heads = heads,
          .d = d,
          .table = table.shape[0]};
}

Attention attention_forward(View q, View k, View v, int heads, View y, View lse,
                            View probabilities) {
  constexpr const char* kernel = "attention_forward";
  const Attention n = attention(kernel, {"q", q}, {{"y", y}}, {"k", k}, {{"v", v}},
                                {"probabilities", probabilities}, heads);
  want_lse(kernel, n, {"lse", lse}, {"q", q});
  return n;
}

Attention attention_backward(View dy, View q, View k, View v, View y, View lse, View probabilities,
                             int heads, View dq, View dk, View dv) {
  constexpr const char* kernel = "attention_backward";
  const Attention n =
      attention(kernel, {"q", q}, {{"y", y}, {"dy", dy}, {"dq", dq}}, {"k", k},
                {{"v", v}, {"dk", dk}, {"dv", dv}}, {"probabilities", probabilities}, heads);
  if (!n.probabilities) want_lse(kernel, n, {"lse", lse}, {"q", q});
  return n;
}

BlockOfAttention attention_block_forward(View q, View k, View v, int heads,
                                         const AttentionBlock& block, View visible, View y,
                                         View lse) {
  constexpr const char* kernel = "attention_block_forward";
  const BlockOfAttention n = block_of_attention(kernel, {"q", q}, {}, {"k", k}, {{"v", v}}, heads,
                                                block, {"visible", visible});
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
  Merge n{heads_of(kernel, {"y_part", y_part}, {"y_part", y_part}, heads), first, 0};
  want_lse(kernel, n, {"lse_part", lse_part}, {"y_part", y_part});
  want_contiguous(kernel, {{"y_part", y_part}, {"y", y}});
  n.rows = whole[1];
  want_statistics(kernel, {{"lse", lse}});
  want(kernel, lse.shape == Shape{n.b, n.heads, n.rows}, {"lse", lse}, {"y", y},
       "lse must be (b, heads, s)");
  return n;
}

BlockOfAttention attention_block_backward(View dy, View q, View k, View v, View y, View lse,
                                          int heads, const AttentionBlock& block, View visible,
                                          View dq, View dk, View dv) {
  constexpr const char* kernel = "attention_block_backward";
  const BlockOfAttention n =
      block_of_attention(kernel, {"q", q}, {{"y", y}, {"dy", dy}, {"dq", dq}}, {"k", k},
                         {{"v", v}, {"dk", dk}, {"dv", dv}}, heads, block, {"visible", visible});
  want_statistics(kernel, {{"lse", lse}});
  want(kernel, lse.shape == Shape{n.b, n.heads, q.shape[1]}, {"lse", lse}, {"q", q},
       "lse must be (b, heads, s)");
  return n;
}

}  // namespace lockstep::arguments
