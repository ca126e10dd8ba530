/// Causal attention, computed head by head, in blocks of query rows. The query heads of a group
/// share one copy of their keys and values.
///
/// A block of 64 queries attends to the keys up to its own last row, so only the scores below the
/// diagonal or in a diagonal block are computed, not the whole (s, s) matrix. The forward pass
/// takes 2 s² d (1 + 64/s) FLOPs per head, with d = h / heads, instead of 4 s² d.

#include "kernels/cpu/attention_rows.h"

namespace lockstep::cpu {
namespace {

void attention_forward(Queue, In q, In k, In v, int heads, Out y, Out32 lse, Out32 probabilities) {
  const AttentionSizes n = arguments::attention_forward(q, k, v, heads, y, lse, probabilities);
  const auto p = scores(n.s);
  Heads each{n.s, n.d, 4};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t group = 0; group < n.groups; ++group) {
      each.select(b, group);
      const Head keys = each.read(k, 1), values = each.read(v, 2);
      for (std::int64_t head = n.first_head(group); head < n.first_head(group + 1); ++head) {
        const std::int64_t matrix = b * n.heads + head;
        each.select(b, head);
        const Head queries = each.read(q, 0);
        for (std::int64_t first = 0; first < n.s; first += block_rows)
          forward_block(n, causal(first, std::min(first + block_rows, n.s)), queries, keys, values,
                        each[3], lse.f32() + matrix * n.s,
                        n.probabilities ? probabilities.f32() + matrix * n.s * n.s : nullptr,
                        p.get());
        each.write(3, y);
      }
    }
}

void attention_backward(Queue, In dy, In q, In k, In v, In y, In32 lse, In32 probabilities,
                        int heads, Out dq, Out dk, Out dv) {
  const AttentionSizes n =
      arguments::attention_backward(dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
  const auto scratch = n.probabilities ? nullptr : scores(n.s);
  const auto dp = scores(n.s);
  Heads each{n.s, n.d, 8};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t group = 0; group < n.groups; ++group) {
      each.select(b, group);
      const Head keys = each.read(k, 1), values = each.read(v, 2);
      // The group's first block attends to all keys and overwrites their gradients.
      float add_to_dk_dv = 0.0F;
      for (std::int64_t head = n.first_head(group); head < n.first_head(group + 1); ++head) {
        const std::int64_t matrix = b * n.heads + head;
        each.select(b, head);
        const Head queries = each.read(q, 0), up = each.read(dy, 3), outputs = each.read(y, 4);
        for (std::int64_t end = n.s; end > 0; end -= (end - 1) % block_rows + 1) {
          const Block block = causal((end - 1) / block_rows * block_rows, end);
          Matrix p{scratch.get(), block.end};
          if (n.probabilities)
            p = {probabilities.f32() + (matrix * n.s + block.first) * n.s, n.s};
          else
            recompute_probabilities(n, block, queries, keys, lse.f32() + matrix * n.s,
                                    scratch.get());
          backward_block(n, block, up, queries, keys, values, outputs, p, each[5], each[6], each[7],
                         dp.get(), 0.0F, add_to_dk_dv);
          add_to_dk_dv = 1.0F;
        }
        each.write(5, dq);
      }
      each.select(b, group);
      each.write(6, dk);
      each.write(7, dv);
    }
}

}  // namespace

void set_attention(Kernels& kernels) {
  kernels.attention_forward = attention_forward;
  kernels.attention_backward = attention_backward;
}

}  // namespace lockstep::cpu
