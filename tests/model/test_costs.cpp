#include <doctest/doctest.h>

#include "core/model/ops.h"

using namespace lockstep;

namespace {

bool has_shape(const Cost& cost, KernelKind kind, std::int64_t m, std::int64_t n, std::int64_t k) {
  return cost.kind == kind && cost.m == m && cost.n == n && cost.k == k;
}

}  // namespace

TEST_CASE("costs: a product's shape is (m, k) by (k, n), as its matrices are multiplied") {
  // x (6, 4) w (4, 10) = y (6, 10); dy (6, 10) wᵀ (10, 4) = dx (6, 4); xᵀ (4, 6) dy (6, 10) = dw.
  const Cost forward = cost::linear_forward(6, 4, 10, true);
  CHECK(has_shape(forward, KernelKind::product, 6, 10, 4));
  CHECK(forward.flops == 480);
  CHECK(forward.bytes == 4 * (24 + 40 + 60 + 10));
  const Cost input = cost::linear_backward_input(6, 4, 10);
  CHECK(has_shape(input, KernelKind::product, 6, 4, 10));
  CHECK(input.flops == 480);
  const Cost weight = cost::linear_backward_weight(6, 4, 10, false);
  CHECK(has_shape(weight, KernelKind::product, 4, 10, 6));
  CHECK(weight.flops == 480);
}

TEST_CASE("costs: attention has as many queries and keys as its block, and heads of size h / a") {
  const Shape y{2, 8, 12};  // 3 heads of size 4
  CHECK(has_shape(cost::attention_forward(y, 3), KernelKind::attention, 8, 8, 4));
  CHECK(has_shape(cost::attention_backward(y, 3), KernelKind::attention, 8, 8, 4));
  CHECK(cost::attention_forward(y, 3).flops == 2 * 2 * 8 * 8 * 12);
  const AttentionBlock block{.queries = 5, .keys = 7};
  CHECK(has_shape(cost::attention_block_forward(y, 3, block), KernelKind::attention, 5, 7, 4));
  CHECK(has_shape(cost::attention_block_backward(y, 3, block), KernelKind::attention, 5, 7, 4));
}
