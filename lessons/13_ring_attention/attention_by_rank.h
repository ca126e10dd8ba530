#pragma once

#include <stdexcept>

#include "core/comm/group.h"
#include "core/model/attention.h"
#include "core/model/builder.h"
#include "core/model/ops.h"
#include "core/plan/batch.h"

namespace lockstep {

// A softmax over all keys is merged from softmaxes over parts of them: each part also yields the
// log of its sum of exponentials, which determines the part's weight (Milakov & Gimelshein 2018).

/// Returns the rows of rank `self` and the keys of another rank, `source`, between which causal
/// attention is not masked, if each rank has c positions. It is a rectangle, a triangle, or nothing
/// (no queries).
inline AttentionBlock visible_block(ContextLayout layout, int self, int source, std::int64_t c) {
  const bool earlier = source < self;
  if (layout == ContextLayout::contiguous)
    return earlier ? AttentionBlock{0, c, 0, c} : AttentionBlock{};
  // Striped (Brandon 2023): the j-th position of an earlier rank comes just before that of `self`;
  // that of a later one comes just after it, so each query sees one key fewer.
  if (layout == ContextLayout::striped)
    return earlier ? AttentionBlock{0, c, 0, c, true} : AttentionBlock{1, c - 1, 0, c - 1, true};
  if (layout == ContextLayout::balanced)
    throw std::logic_error{"visible_block: a balanced layout has masks"};
  // Zigzag: rank i holds chunks i and 2N-1-i. Both chunks of `self` come after the first chunk of
  // an earlier rank and before its second one. If `source` is later, both its chunks lie between
  // those of `self`.
  const std::int64_t chunk = c / 2;
  return earlier ? AttentionBlock{0, c, 0, chunk} : AttentionBlock{chunk, chunk, 0, c};
}

/// One message: K and V, or dK and dV, of one rank's tokens, side by side, (2, b, c, w'), with w' =
/// g d columns for g heads of keys. Grouped-query attention makes it a/g times smaller than
/// GPT-2's. With `ranks`, memory for the messages of that many ranks.
inline Tensor keys_values_message(Memory& memory, View k, int ranks = 1) {
  const Shape& one = k.shape;
  return {memory,
          {2 * ranks, one[0], one[1], one[2]},
          MemoryCategory::communication,
          k.dtype,
          "keys and values"};
}
struct KeysValues {
  View k, v;
};
/// Returns the two halves (b, c, w') of such a message, whose tokens are those of q (b, c, w).
inline KeysValues split_message(View message, View q) {
  const std::int64_t n = message.elements() / 2, b = q.shape[0], c = q.shape[1];
  const auto half = [&](int which) {
    return message.reshaped({2 * n}).columns(which * n, n).reshaped({b, c, n / (b * c)});
  };
  return {half(0), half(1)};
}

/// The causal attention of this rank's queries to one rank's keys at a time.
class AttentionByRank {
 public:
  /// `heads` is the number of heads on this rank.
  AttentionByRank(const LayerSite& site, Group& ranks, Heads heads)
      : ops_(site.device, site.layer, site.config.dtype),
        layout_(site.context),
        rank_(ranks.rank()),
        heads_(heads.queries) {}

  /// Computes y (b, c, w) and lse (b, heads, c) from this rank's own keys, or merges into them the
  /// attention to the keys of `source`. Call it for this rank first.
  void forward(int source, View q, View keys_values, View y, View lse, const Stash& stash) const {
    const auto [k, v] = split_message(keys_values, q);
    if (const DocumentMask* mask = mask_of(source, stash))
      return forward_masked(source, *mask, q, k, v, y, lse);
    // In all layouts, a rank's own rows are in order, so the mask is the usual one.
    if (source == rank_) return ops_.attention_forward(q, k, v, heads_, y, lse);
    const AttentionBlock block = block_of(source, q);
    if (block.queries == 0) return;
    const Tensor part =
        ops_.activation({q.shape[0], block.queries, q.shape[2]}, "attention output");
    const Tensor part_lse =
        ops_.statistic({q.shape[0], heads_, block.queries}, "attention log-sum-exps");
    ops_.attention_block_forward(q, k, v, heads_, block, part, part_lse);
    ops_.attention_merge(part, part_lse, heads_, block.first_query, y, lse);
  }

  /// Call it before the first backward(), with the memory of the gradients: packed documents add to
  /// it.
  void begin_backward(View dqkv, const Stash& stash) const {
    if (stash.microbatch().masks != nullptr) ops_.fill(dqkv, 0);
  }
  /// The result of the forward passes, merged over all ranks, and its gradient.
  struct Output {
    View y, lse, dy;
  };
  /// Writes this rank's part of the gradients of the keys and values of `source`, and computes dq
  /// for this rank's own keys, or adds to it. Returns false, and writes nothing, if the queries see
  /// none of the keys. Call it for this rank first.
  bool backward(int source, const Output& out, View q, View keys_values, View dq, View gradients,
                const Stash& stash) const {
    const auto [k, v] = split_message(keys_values, q);
    const auto [dk, dv] = split_message(gradients, q);
    if (const DocumentMask* mask = mask_of(source, stash)) {
      if (mask->pairs == 0) return false;
      ops_.fill(gradients, 0);
      ops_.attention_block_backward(out.dy, q, k, v, out.y, out.lse, heads_, all_rows(q), dq, dk,
                                    dv, mask->visible, mask->pairs);
      return true;
    }
    if (source == rank_) {
      ops_.attention_backward(out.dy, q, k, v, out.y, out.lse, {}, heads_, dq, dk, dv);
      return true;
    }
    const AttentionBlock block = block_of(source, q);
    if (block.queries == 0) return false;
    ops_.fill(gradients, 0);
    ops_.attention_block_backward(out.dy, q, k, v, out.y, out.lse, heads_, block, dq, dk, dv);
    return true;
  }

 private:
  /// With packed documents, a token may see keys of any rank; the masks say which.
  const DocumentMask* mask_of(int source, const Stash& stash) const {
    const DocumentMasks* masks = stash.microbatch().masks;
    return masks == nullptr ? nullptr : &masks->by_rank[static_cast<std::size_t>(source)];
  }
  void forward_masked(int source, const DocumentMask& mask, View q, View k, View v, View y,
                      View lse) const {
    const bool own = source == rank_;
    // Allocated even if it is not needed, so that the memory does not depend on the documents.
    const Tensor part = own ? Tensor{} : ops_.activation(q.shape, "attention output");
    const Tensor part_lse = own ? Tensor{} : ops_.statistic(lse.shape, "attention log-sum-exps");
    if (mask.pairs == 0) return;
    ops_.attention_block_forward(q, k, v, heads_, all_rows(q), own ? y : part.view(),
                                 own ? lse : part_lse.view(), mask.visible, mask.pairs);
    if (!own) ops_.attention_merge(part, part_lse, heads_, 0, y, lse);
  }

  AttentionBlock block_of(int source, View q) const {
    return visible_block(layout_, rank_, source, q.shape[1]);
  }

  Ops ops_;
  ContextLayout layout_;
  int rank_, heads_;
};

/// What the layers have in common whose queries meet the keys of other ranks: they save the same
/// tensors as AttentionCore, for this rank's tokens, and have no parameters.
class AttentionOverRanks : public Layer {
 public:
  /// `heads` are the heads on this rank.
  AttentionOverRanks(const LayerSite& site, Group& ranks, Heads heads)
      : memory_(site.device.memory),
        ops_(site.device, site.layer, site.config.dtype),
        ranks_(ranks),
        attention_(site, ranks, heads),
        heads_(heads) {}

  void backward_weight(Stash&) override {}

 protected:
  struct Saved {
    Tensor qkv, y, lse;
  };

  /// Copies this rank's K and V into a message, because messages must be contiguous. With
  /// `in_all_ranks`, the message is this rank's chunk of memory for the messages of all ranks.
  Tensor own_keys_values(View qkv, bool in_all_ranks = false) const {
    const auto [q, k, v] = split_qkv(qkv, heads_);
    Tensor message = keys_values_message(memory_, k, in_all_ranks ? ranks_.size() : 1);
    const auto [own_k, own_v] =
        split_message(in_all_ranks ? ranks_.chunk(message, ranks_.rank()) : message.view(), q);
    ops_.copy(k, own_k);
    ops_.copy(v, own_v);
    return message;
  }

  Memory& memory_;
  Ops ops_;
  Group& ranks_;
  AttentionByRank attention_;
  Heads heads_;
};

}  // namespace lockstep
