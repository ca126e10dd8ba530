/// Attention to a part of the keys, and the merge of such parts (ring attention). The block is a
/// rectangle of scores, which takes 4 d FLOPs per query and key, or the lower triangle of a square.
/// With document masks, each block of 64 rows takes the keys from the first to the last one that
/// any of its rows sees.

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "kernels/cpu/attention_rows.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

/// Returns the keys that each of the block's queries sees, (b, queries), counted from the block's
/// first key; nothing if there are no document masks.
std::vector<Range> visible_keys(const char* kernel, const arguments::BlockOfAttention& n,
                                const AttentionBlock& block, View k, View visible) {
  std::vector<Range> ranges;
  if (visible.elements() == 0) return ranges;
  const std::int64_t rows = k.shape[1];
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t i = 0; i < n.s; ++i) {
      const std::int64_t row = block.first_query + i;
      const std::int32_t* const pair = visible.i32() + (b * visible.shape[1] + row) * 2;
      if (std::min(pair[0], pair[1]) < 0 || std::max(pair[0], pair[1]) > rows)
        throw std::out_of_range(
            fmt::format("{}: query ({}, {}) sees keys [{}, {}), but k has rows [0, {})", kernel, b,
                        row, pair[0], pair[1], rows));
      const std::int64_t begin = std::max(pair[0] - block.first_key, std::int64_t{0});
      const std::int64_t end = std::min(pair[1] - block.first_key, block.keys);
      ranges.push_back(begin < end ? Range{begin, end} : Range{});
    }
  return ranges;
}

/// Calls visit(block) for blocks of one sequence's queries. A block attends to all keys, in a
/// causal block to the keys up to its own place, or, with document masks, to the keys that any of
/// its rows sees.
template <class Visit>
void for_blocks(const arguments::BlockOfAttention& n, const Range* visible, const Visit& visit) {
  for (std::int64_t first = 0; first < n.s; first += block_rows) {
    const std::int64_t end = std::min(first + block_rows, n.s);
    Block block = n.causal ? causal(first, end) : Block{first, end, 0, n.keys};
    if (visible != nullptr) {
      block.visible = visible;
      block.first_key = n.keys;
      block.end_key = 0;
      for (std::int64_t i = first; i < end; ++i) {
        if (visible[i].count() == 0) continue;
        block.first_key = std::min(block.first_key, visible[i].begin);
        block.end_key = std::max(block.end_key, visible[i].end);
      }
      block.first_key = std::min(block.first_key, block.end_key);
    }
    visit(block);
  }
}

void attention_block_forward(Queue, In q, In k, In v, int heads, const AttentionBlock& block,
                             Indices visible, Out y, Out32 lse) {
  const auto n = arguments::attention_block_forward(q, k, v, heads, block, visible, y, lse);
  const auto ranges = visible_keys("attention_block_forward", n, block, k, visible);
  const Rows query_rows{q, block.first_query, block.queries};
  const Rows key_rows{k, block.first_key, block.keys};
  const Rows value_rows{v, block.first_key, block.keys};
  const auto p = scores(n.keys);
  Heads each{std::max(n.s, n.keys), n.d, 4};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t group = 0; group < n.groups; ++group) {
      each.select(b, group);
      const Head keys = each.read(key_rows, 1), values = each.read(value_rows, 2);
      for (std::int64_t head = n.first_head(group); head < n.first_head(group + 1); ++head) {
        each.select(b, head);
        const Head queries = each.read(query_rows, 0);
        for_blocks(n, ranges.empty() ? nullptr : &ranges[b * n.s], [&](const Block& rows) {
          forward_block(n, rows, queries, keys, values, each[3],
                        lse.f32() + (b * n.heads + head) * n.s, nullptr, p.get());
        });
        each.write(3, y);
      }
    }
}

void attention_merge(Queue, In y_part, In32 lse_part, int heads, std::int64_t first, InOut y,
                     InOut32 lse) {
  const auto n = arguments::attention_merge(y_part, lse_part, heads, first, y, lse);
  const std::int64_t h = n.heads * n.d;
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t head = 0; head < n.heads; ++head)
      for (std::int64_t i = 0; i < n.s; ++i) {
        const float mine = lse_part.f32()[(b * n.heads + head) * n.s + i];
        float& log_sum = lse.f32()[(b * n.heads + head) * n.rows + first + i];
        const element::MergedPart merged = element::merge_log_sums(log_sum, mine);
        const float* const from = y_part.f32() + (b * n.s + i) * h + head * n.d;
        float* const row = y.f32() + (b * n.rows + first + i) * h + head * n.d;
        for (std::int64_t c = 0; c < n.d; ++c)
          row[c] = merged.first * row[c] + merged.second * from[c];
        log_sum = merged.log_sum;
      }
}

void attention_block_backward(Queue, In dy, In q, In k, In v, In y, In32 lse, int heads,
                              const AttentionBlock& block, Indices visible, InOut dq, InOut dk,
                              InOut dv) {
  const auto n =
      arguments::attention_block_backward(dy, q, k, v, y, lse, heads, block, visible, dq, dk, dv);
  const auto ranges = visible_keys("attention_block_backward", n, block, k, visible);
  const auto of_queries = [&](const View& view) {
    return Rows{view, block.first_query, block.queries};
  };
  const auto of_keys = [&](const View& view) { return Rows{view, block.first_key, block.keys}; };
  const auto p = scores(n.keys), dp = scores(n.keys);
  Heads each{std::max(n.s, n.keys), n.d, 8};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t group = 0; group < n.groups; ++group) {
      each.select(b, group);
      const Head keys = each.read(of_keys(k), 1), values = each.read(of_keys(v), 2);
      const Head dks = each.read(of_keys(dk), 6), dvs = each.read(of_keys(dv), 7);
      for (std::int64_t head = n.first_head(group); head < n.first_head(group + 1); ++head) {
        each.select(b, head);
        const Head queries = each.read(of_queries(q), 0), up = each.read(of_queries(dy), 3);
        const Head outputs = each.read(of_queries(y), 4), dqs = each.read(of_queries(dq), 5);
        const float* const log_sums =
            lse.f32() + (b * n.heads + head) * q.shape[1] + block.first_query;
        for_blocks(n, ranges.empty() ? nullptr : &ranges[b * n.s], [&](const Block& rows) {
          if (rows.keys() == 0) return;
          recompute_probabilities(n, rows, queries, keys, log_sums, p.get());
          backward_block(n, rows, up, queries, keys, values, outputs, {p.get(), rows.keys()}, dqs,
                         dks, dvs, dp.get(), 1.0F, 1.0F);
        });
        each.write(5, of_queries(dq));
      }
      each.select(b, group);
      each.write(6, of_keys(dk));
      each.write(7, of_keys(dv));
    }
}

}  // namespace

void set_attention_block(Kernels& kernels) {
  kernels.attention_block_forward = attention_block_forward;
  kernels.attention_merge = attention_merge;
  kernels.attention_block_backward = attention_block_backward;
}

}  // namespace lockstep::cpu
