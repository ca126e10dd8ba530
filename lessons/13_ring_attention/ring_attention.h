#pragma once

#include <utility>

#include "lessons/13_ring_attention/attention_by_rank.h"

namespace lockstep {

// Context parallelism: N ranks share every sequence, and each holds c = s/N of its tokens. All
// layers but attention treat each token by itself, so a rank computes them for its own tokens as if
// it were alone. Attention needs the keys and values of all earlier tokens, and these are on other
// ranks.
//
// Ring attention (Liu 2023): the ranks form a ring. K and V travel around it, one rank per step.
// While a rank computes the attention of its queries to the keys that it holds, it already sends
// these keys to the next rank, and receives others from the previous rank. After N steps, its
// queries have met all keys. No rank ever holds more than two ranks' keys.

/// Attention whose keys and values travel around the ring of ranks. Saves the same tensors as
/// AttentionCore, for this rank's tokens: the other ranks' keys travel around the ring again in the
/// backward pass.
class RingAttention : public AttentionOverRanks {
 public:
  using AttentionOverRanks::AttentionOverRanks;

  Tensor forward(Tensor qkv, Stash& stash) override {
    const View q = split_qkv(qkv, heads_).q;
    Tensor y = ops_.activation(q.shape, "attention output");
    Tensor lse = ops_.statistic({q.shape[0], heads_.queries, q.shape[1]}, "attention log-sum-exps");
    Tensor held = own_keys_values(qkv), arriving = like(held);
    for (int step = 0; step < ranks_.size(); ++step) {
      Hop hop = is_last(step) ? Hop{} : pass_on(held, arriving);
      attention_.forward(source_of(step), q, held, y, lse, stash);
      hop.wait();
      std::swap(held, arriving);
    }
    stash.of<Saved>(this) = {std::move(qkv), y.share(), std::move(lse)};
    return y;
  }

  /// The gradients of K and V follow them around the ring. Each rank adds its part and passes the
  /// sums on; a last hop returns them to the rank of the keys. The sums are always one step behind:
  /// they arrive while the rank computes its part.
  Tensor backward_input(Tensor dy, Stash& stash) override {
    const Saved& saved = stash.saved<Saved>(this);
    const View q = split_qkv(saved.qkv, heads_).q;
    Tensor dqkv = ops_.activation(saved.qkv.shape(), activation_gradients);
    const auto [dq, dk, dv] = split_qkv(dqkv, heads_);
    attention_.begin_backward(dqkv, stash);
    Tensor held = own_keys_values(saved.qkv), arriving = like(held);
    Tensor part = like(held), sums = like(held), arriving_sums = like(held);
    Hop sums_hop;
    for (int step = 0; step < ranks_.size(); ++step) {
      Hop hop = is_last(step) ? Hop{} : pass_on(held, arriving);
      const bool sees = attention_.backward(source_of(step), {saved.y, saved.lse, dy}, q, held, dq,
                                            step == 0 ? sums : part, stash);
      if (step > 0) {
        sums_hop.wait();
        std::swap(sums, arriving_sums);
        if (sees) ops_.add(sums, part, sums);
      }
      sums_hop = pass_on(sums, arriving_sums);
      hop.wait();
      std::swap(held, arriving);
    }
    sums_hop.wait();
    const auto [own_dk, own_dv] = split_message(arriving_sums, q);
    ops_.copy(own_dk, dk);
    ops_.copy(own_dv, dv);
    stash.drop(this);
    return dqkv;
  }

 private:
  /// A message to the next rank, and one from the previous rank.
  struct Hop {
    Work sent, received;
    void wait() {
      sent.wait();
      received.wait();
    }
  };

  Hop pass_on(View out, View in) const {
    const int n = ranks_.size(), rank = ranks_.rank();
    return {ranks_.send(out, (rank + 1) % n), ranks_.receive(in, (rank + n - 1) % n)};
  }
  /// Returns the rank whose keys this rank holds in a step.
  int source_of(int step) const { return (ranks_.rank() + ranks_.size() - step) % ranks_.size(); }
  bool is_last(int step) const { return step + 1 == ranks_.size(); }

  Tensor like(const Tensor& message) const {
    return {memory_, message.shape(), MemoryCategory::communication, message.dtype(),
            "keys and values"};
  }
};

}  // namespace lockstep
