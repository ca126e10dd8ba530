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

TEST_CASE("costs: fewer heads of k and v take fewer bytes, and the same FLOPs") {
  const Shape y{2, 8, 12};  // 3 heads of size 4
  const Cost all = cost::attention_forward(y, 3), one = cost::attention_forward(y, 3, 4, false, 1);
  CHECK(one.flops == all.flops);
  CHECK(all.bytes - one.bytes == 4 * 2 * (2 * 8 * 8));  // k and v lose 8 of their 12 columns
  CHECK(cost::attention_forward(y, 3, 4, false, 3).bytes == all.bytes);
  CHECK(cost::attention_backward(y, 3, 2).bytes -
            cost::attention_backward(y, 3, 2, false, 1).bytes ==
        2 * 4 * (2 * 8 * 8));
  const AttentionBlock block{.queries = 5, .keys = 7};
  CHECK(cost::attention_block_forward(y, 3, block).bytes -
            cost::attention_block_forward(y, 3, block, 4, 1).bytes ==
        4 * 2 * (2 * 7 * 8));
  CHECK(cost::attention_block_backward(y, 3, block).bytes -
            cost::attention_block_backward(y, 3, block, 4, 1).bytes ==
        4 * 6 * (2 * 7 * 8));
}

TEST_CASE("costs: with document masks, attention takes 4 d FLOPs per head and visible pair") {
  const Shape q{2, 8, 12};  // 3 heads of size 4
  const AttentionBlock block{.queries = 5, .keys = 7};
  const Cost forward = cost::attention_block_forward(q, 3, block, 4, 1, 17);
  CHECK(forward.flops == 4 * 4 * 3 * 17);
  CHECK(cost::attention_block_backward(q, 3, block, 4, 1, 17).flops == 2.5 * forward.flops);
  CHECK(cost::attention_block_forward(q, 3, block, 4, 1, 0).flops == 0);
  // If every pair is visible, the cost is that without masks, plus the ranges of 2 · 5 queries.
  const Cost all = cost::attention_block_forward(q, 3, block, 4, 3, 2 * 5 * 7);
  CHECK(all.flops == cost::attention_block_forward(q, 3, block).flops);
  CHECK(all.bytes == cost::attention_block_forward(q, 3, block).bytes + 8 * 2 * 5);
}

namespace {

struct Charged {
  Picoseconds flops, bytes;
  bool operator==(const Charged&) const = default;
};

/// Returns the cost that `work` charges to the clock.
template <class Work>
Charged charged(const Work& work) {
  const auto time_on = [&](const Cluster& cluster) {
    const Clock clock = Clock::modelled(cluster);
    Recorder trace{false};
    Memory memory{DeviceKind::meta};
    Stream stream{clock, trace, 0, DeviceKind::meta};
    work(Ops{{memory, stream}, 0, DType::bf16});
    return stream.now();
  };
  return {time_on({.flops = 1e12}), time_on({.flops = 1e30, .memory_bandwidth = 1e12})};
}

View bf16(Shape shape) {
  return {nullptr, shape, DType::bf16};
}
View f32(Shape shape) {
  return {nullptr, shape};
}

}  // namespace

TEST_CASE("costs: RMSNorm, SwiGLU and rotary positions only move memory") {
  const View x = bf16({6, 8}), h = bf16({8}), rstd = f32({6});  // 96 and 16 bytes, and 24
  CHECK(charged([&](const Ops& ops) { ops.rmsnorm_forward(x, h, 1e-5F, x, rstd); }) ==
        Charged{0, 2 * 96 + 16 + 24});
  CHECK(charged([&](const Ops& ops) { ops.rmsnorm_backward_input(x, x, h, rstd, x); }) ==
        Charged{0, 3 * 96 + 16 + 24});
  CHECK(charged([&](const Ops& ops) { ops.rmsnorm_backward_weight(x, x, rstd, h); }) ==
        Charged{0, 2 * 96 + 24 + 2 * 16});
  CHECK(charged([&](const Ops& ops) {
          ops.swiglu_forward(x, bf16({6, 4}));
        }) == Charged{0, 96 + 48});
  CHECK(charged([&](const Ops& ops) {
          ops.swiglu_backward(x, bf16({6, 4}), x);
        }) == Charged{0, 2 * 96 + 48});
  const View positions{nullptr, {3}, DType::i32}, table = f32({100, 4});
  CHECK(charged([&](const Ops& ops) {
          ops.rotary(bf16({2, 3, 8}), 2, table, positions, false);
        }) == Charged{0, 2 * 96 + 3 * 4 + 3 * 16});
}

TEST_CASE("costs: Ops finds the groups in the width of k, and charges the visible pairs") {
  const View q = bf16({2, 8, 12}), k = bf16({2, 8, 4}), lse = f32({2, 3, 8});  // 3 heads in 1 group
  const auto as_charged = [](const Cost& cost) {
    return Charged{static_cast<Picoseconds>(cost.flops), static_cast<Picoseconds>(cost.bytes)};
  };
  CHECK(charged([&](const Ops& ops) { ops.attention_forward(q, k, k, 3, q, lse); }) ==
        as_charged(cost::attention_forward(q.shape, 3, 2, false, 1)));
  CHECK(charged([&](const Ops& ops) {
          ops.attention_backward(q, q, k, k, q, lse, {}, 3, q, k, k);
        }) == as_charged(cost::attention_backward(q.shape, 3, 2, false, 1)));
  const AttentionBlock block{1, 5, 0, 7};
  const View y = bf16({2, 5, 12}), y_lse = f32({2, 3, 5}), visible{nullptr, {2, 8, 2}, DType::i32};
  CHECK(charged([&](const Ops& ops) {
          ops.attention_block_forward(q, k, k, 3, block, y, y_lse);
        }) == as_charged(cost::attention_block_forward(q.shape, 3, block, 2, 1)));
  CHECK(charged([&](const Ops& ops) {
          ops.attention_block_forward(q, k, k, 3, block, y, y_lse, visible, 17);
        }) == as_charged(cost::attention_block_forward(q.shape, 3, block, 2, 1, 17)));
  CHECK(charged([&](const Ops& ops) {
          ops.attention_block_backward(q, q, k, k, q, lse, 3, block, q, k, k, visible, 17);
        }) == as_charged(cost::attention_block_backward(q.shape, 3, block, 2, 1, 17)));
}

TEST_CASE("costs: an embedding without positions moves no row of a position table") {
  const View tokens{nullptr, {2, 8}, DType::i32}, dx = bf16({2, 8, 12}), table = bf16({30, 12});
  const View positions = bf16({8, 12});
  CHECK(charged([&](const Ops& ops) {
          ops.embedding_part_backward(tokens, {0, 30}, dx, table, positions);
        }) == Charged{0, 2 * 8 * 4 + 5 * 2 * 8 * 12 * 2});
  CHECK(charged([&](const Ops& ops) {
          ops.embedding_part_backward(tokens, {0, 30}, dx, table, {});
        }) == Charged{0, 2 * 8 * 4 + 3 * 2 * 8 * 12 * 2});
}
