#pragma once

#include "lessons/13_ring_attention/attention_by_rank.h"

namespace lockstep {

/// Attention that gathers the keys and values of all ranks in one collective, as in Llama 3
/// (section 3.3.2). Meanwhile, the rank computes the attention to its own keys, and only this block
/// can hide the gather. It sends nearly the same bytes as ring attention, but a rank holds the keys
/// of the whole sequence. In return, no rank waits for its neighbours between blocks. The gathered
/// keys are not saved: the backward pass gathers them again.
class GatheredAttention : public AttentionOverRanks {
 public:
  using AttentionOverRanks::AttentionOverRanks;

  Tensor forward(Tensor qkv, Stash& stash) override {
    const View q = split_qkv(qkv, heads_).q;
    Tensor y = ops_.activation(q.shape, "attention output");
    Tensor lse = ops_.statistic({q.shape[0], heads_.queries, q.shape[1]}, "attention log-sum-exps");
    const Tensor all = own_keys_values(qkv, /*in_all_ranks=*/true);
    Work gather = ranks_.all_gather(all);
    for_sources(gather, [&](int source) {
      attention_.forward(source, q, ranks_.chunk(all, source), y, lse, stash);
    });
    stash.of<Saved>(this) = {std::move(qkv), y.share(), std::move(lse)};
    return y;
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    const Saved& saved = stash.saved<Saved>(this);
    const View q = split_qkv(saved.qkv, heads_).q;
    Tensor dqkv = ops_.activation(saved.qkv.shape(), activation_gradients);
    const auto [dq, dk, dv] = split_qkv(dqkv, heads_);
    attention_.begin_backward(dqkv, stash);
    const Tensor all = own_keys_values(saved.qkv, /*in_all_ranks=*/true),
                 gradients = keys_values_message(memory_, dk, ranks_.size());
    Work gather = ranks_.all_gather(all);
    for_sources(gather, [&](int source) {
      const View part = ranks_.chunk(gradients, source);
      if (!attention_.backward(source, {saved.y, saved.lse, dy}, q, ranks_.chunk(all, source), dq,
                               part, stash))
        ops_.fill(part, 0);
    });
    ranks_.reduce_scatter(gradients).wait();
    const auto [own_dk, own_dv] = split_message(ranks_.chunk(gradients, ranks_.rank()), q);
    ops_.copy(own_dk, dk);
    ops_.copy(own_dv, dv);
    stash.drop(this);
    return dqkv;
  }

 private:
  /// Visits this rank first, whose keys need not travel, then waits for the others' and visits them
  /// in the ring's order.
  template <class Visit>
  void for_sources(Work& gather, const Visit& visit) const {
    const int n = ranks_.size();
    visit(ranks_.rank());
    gather.wait();
    for (int step = 1; step < n; ++step) visit((ranks_.rank() + n - step) % n);
  }
};

}  // namespace lockstep
