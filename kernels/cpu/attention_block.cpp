/// Attention to a part of the keys, and the merge of such parts (ring attention). The block is a
/// rectangle of scores, which takes 4 d FLOPs per query and key, or the lower triangle of a square.

#include "kernels/cpu/attention_rows.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

/// Calls visit(block) for blocks of the `queries` rows, each of which attends to all `keys`, or, in
/// a causal block, to those up to its own place.
template <class Visit>
void for_blocks(const arguments::BlockOfAttention& n, const Visit& visit) {
  for (std::int64_t first = 0; first < n.s; first += block_rows) {
    const std::int64_t end = std::min(first + block_rows, n.s);
    visit(n.causal ? causal(first, end) : Block{first, end, n.keys});
  }
}

void attention_block_forward(Queue, In q, In k, In v, int heads, const AttentionBlock& block, Out y,
                             Out32 lse) {
  const auto n = arguments::attention_block_forward(q, k, v, heads, block, y, lse);
  const Rows query_rows{q, block.first_query, block.queries};
  const Rows key_rows{k, block.first_key, block.keys};
  const Rows value_rows{v, block.first_key, block.keys};
  const auto p = scores(n.keys);
  Heads each{std::max(n.s, n.keys), n.d, 4};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t head = 0; head < n.heads; ++head) {
      each.select(b, head);
      const Head queries = each.read(query_rows, 0), keys = each.read(key_rows, 1);
      const Head values = each.read(value_rows, 2);
      for_blocks(n, [&](const Block& rows) {
        forward_block(n, rows, queries, keys, values, each[3],
                      lse.f32() + (b * n.heads + head) * n.s, nullptr, p.get());
      });
      each.write(3, y);
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
                              const AttentionBlock& block, InOut dq, InOut dk, InOut dv) {
  const auto n = arguments::attention_block_backward(dy, q, k, v, y, lse, heads, block, dq, dk, dv);
  const auto of_queries = [&](const View& view) {
    return Rows{view, block.first_query, block.queries};
  };
  const auto of_keys = [&](const View& view) { return Rows{view, block.first_key, block.keys}; };
  const auto p = scores(n.keys), dp = scores(n.keys);
  Heads each{std::max(n.s, n.keys), n.d, 8};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t head = 0; head < n.heads; ++head) {
      each.select(b, head);
      const Head queries = each.read(of_queries(q), 0), keys = each.read(of_keys(k), 1);
      const Head values = each.read(of_keys(v), 2), up = each.read(of_queries(dy), 3);
      const Head outputs = each.read(of_queries(y), 4), dqs = each.read(of_queries(dq), 5);
      const Head dks = each.read(of_keys(dk), 6), dvs = each.read(of_keys(dv), 7);
      const float* const log_sums =
          lse.f32() + (b * n.heads + head) * q.shape[1] + block.first_query;
      for_blocks(n, [&](const Block& rows) {
        recompute_probabilities(n, rows, queries, keys, log_sums, p.get());
        backward_block(n, rows, up, queries, keys, values, outputs, {p.get(), rows.keys}, dqs, dks,
                       dvs, dp.get(), 1.0F, 1.0F);
      });
      each.write(5, of_queries(dq));
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
