#pragma once

#include "lessons/13_ring_attention/ring_attention.h"

namespace lockstep {

/// Attention that gathers the keys and values of all ranks before it computes (Llama 3, section
/// 3.3.2). It sends nearly the same bytes as ring attention, but no message overlaps with compute,
/// and a rank holds the keys of the whole sequence. They are not saved: the backward pass gathers
/// them again.
class GatheredAttention : public Layer {
 public:
  GatheredAttention(const LayerSite& site, Group& ranks, int heads)
      : memory_(site.device.memory),
        ops_(site.device, site.layer, site.config.dtype),
        ranks_(ranks),
        attention_(site, ranks, heads),
        heads_(heads) {}

  Tensor forward(Tensor qkv, Stash& stash) override {
    const View q = third(qkv, 0);
    Tensor y = ops_.activation(q.shape, "attention output");
    Tensor lse = ops_.statistic({q.shape[0], heads_, q.shape[1]}, "attention log-sum-exps");
    const Tensor all = gathered(qkv);
    for_sources(
        [&](int source) { attention_.forward(source, q, ranks_.chunk(all, source), y, lse); });
    stash.of<Saved>(this) = {std::move(qkv), y.share(), std::move(lse)};
    return y;
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    const Saved& saved = stash.saved<Saved>(this);
    const View q = third(saved.qkv, 0);
    Tensor dqkv = ops_.activation(saved.qkv.shape(), activation_gradients);
    const Tensor all = gathered(saved.qkv), gradients = of_all_ranks(q);
    for_sources([&](int source) {
      const View part = ranks_.chunk(gradients, source);
      if (!attention_.backward(source, {saved.y, saved.lse, dy}, q, ranks_.chunk(all, source),
                               third(dqkv, 0), part))
        ops_.fill(part, 0);
    });
    ranks_.reduce_scatter(gradients).wait();
    const View own = ranks_.chunk(gradients, ranks_.rank());
    for (const int i : {0, 1}) ops_.copy(half_of(own, i, q), third(dqkv, 1 + i));
    stash.drop(this);
    return dqkv;
  }
  void backward_weight(Stash&) override {}

 private:
  struct Saved {
    Tensor qkv, y, lse;
  };

  /// Visits the ranks in the ring's order: this rank first, and then the previous ones.
  template <class Visit>
  void for_sources(const Visit& visit) const {
    const int n = ranks_.size();
    for (int step = 0; step < n; ++step) visit((ranks_.rank() + n - step) % n);
  }

  /// Allocates two (b, c, w) for each rank.
  Tensor of_all_ranks(View q) const {
    const Shape& one = q.shape;
    return {memory_,
            {2 * ranks_.size(), one[0], one[1], one[2]},
            MemoryCategory::communication,
            q.dtype,
            "keys and values"};
  }
  Tensor gathered(View qkv) const {
    const View q = third(qkv, 0);
    Tensor all = of_all_ranks(q);
    const View own = ranks_.chunk(all, ranks_.rank());
    for (const int i : {0, 1}) ops_.copy(third(qkv, 1 + i), half_of(own, i, q));
    ranks_.all_gather(all).wait();
    return all;
  }

  Memory& memory_;
  Ops ops_;
  Group& ranks_;
  AttentionByRank attention_;
  int heads_;
};

}  // namespace lockstep
