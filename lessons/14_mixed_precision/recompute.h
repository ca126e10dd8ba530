#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/model/attention.h"
#include "core/model/block.h"
#include "core/model/builder.h"
#include "core/model/gpt.h"

namespace lockstep {

/// The tensors that the backward pass recomputes instead of the forward pass saving them
/// (Korthikanti 2022, "Reducing Activation Recomputation in Large Transformer Models"). The results
/// of all three modes are bitwise identical.
enum class Recompute {
  none,       ///< nothing: attention keeps its (s, s) probabilities
  selective,  ///< the probabilities, from the log-sum-exps, as core's attention always does
  full,       ///< whole blocks, which keep only their inputs, and the probabilities
};

inline const char* name_of(Recompute mode) {
  constexpr const char* names[] = {"none", "selective", "full"};
  return names[static_cast<int>(mode)];
}

/// Parses --recompute.
inline Recompute recompute_of(const std::string& word) {
  for (const Recompute mode : {Recompute::none, Recompute::full})
    if (word == name_of(mode)) return mode;
  return Recompute::selective;
}

/// Attention that keeps its probabilities, (b, heads, s, s), instead of the log-sum-exps that
/// core's attention keeps. The probabilities are f32, because 16-bit ones would differ from those
/// that backward recomputes. Attention's backward uses four products per head here; the version in
/// core uses five.
class KeepingAttentionCore : public Layer {
 public:
  KeepingAttentionCore(const LayerSite& site, Heads heads)
      : ops_(site.device, site.layer, site.config.dtype), heads_(heads) {}

  Tensor forward(Tensor qkv, Stash& stash) override {
    const auto [q, k, v] = split_qkv(qkv, heads_);
    const std::int64_t b = q.shape[0], s = q.shape[1], a = heads_.queries;
    Tensor y = ops_.activation(q.shape, "attention output");
    Tensor probabilities = ops_.statistic({b, a, s, s}, "attention probabilities");
    const Tensor log_sums = ops_.statistic({b, a, s}, "attention log-sum-exps");
    ops_.attention_forward(q, k, v, heads_.queries, y, log_sums, probabilities);
    stash.of<Saved>(this) = {std::move(qkv), y.share(), std::move(probabilities)};
    return y;
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    const Saved& saved = stash.saved<Saved>(this);
    Tensor dqkv = ops_.activation(saved.qkv.shape(), activation_gradients);
    const auto [q, k, v] = split_qkv(saved.qkv, heads_);
    const auto [dq, dk, dv] = split_qkv(dqkv, heads_);
    ops_.attention_backward(dy, q, k, v, saved.y, {}, saved.probabilities, heads_.queries, dq, dk,
                            dv);
    stash.drop(this);
    return dqkv;
  }

  void backward_weight(Stash&) override {}

 private:
  struct Saved {
    Tensor qkv, y, probabilities;
  };

  Ops ops_;
  Heads heads_;
};

/// A block that keeps only its input and runs forward again when its gradient arrives. If the
/// halves of backward run separately, the input half recomputes, and the stash then keeps the same
/// tensors for the weight half as without recomputation.
class RecomputedBlock : public Layer {
 public:
  RecomputedBlock(const LayerSite& site, std::unique_ptr<Layer> block)
      : compute_(site.device.compute), layer_(site.layer), block_(std::move(block)) {}

  Tensor forward(Tensor x, Stash& stash) override {
    stash.of<Saved>(this).x = x.share();
    Stash temporary{stash.microbatch()};
    return block_->forward(std::move(x), temporary);
  }

  Tensor backward_input(Tensor dy, Stash& stash) override {
    return block_->backward_input(std::move(dy), forward_again(stash));
  }

  void backward_weight(Stash& stash) override {
    block_->backward_weight(stash.saved<Saved>(this).again);
    stash.drop(this);
  }

  Tensor backward(Tensor dy, Stash& stash) override {
    Tensor dx = block_->backward(std::move(dy), forward_again(stash));
    stash.drop(this);
    return dx;
  }

  void collect(std::vector<Parameter*>& parameters) override { block_->collect(parameters); }

 private:
  struct Saved {
    Tensor x;
    Stash again;
  };

  /// Recomputes the block's stash. The output is discarded, because the layers after the block have
  /// already used it.
  Stash& forward_again(Stash& stash) {
    Saved& saved = stash.saved<Saved>(this);
    saved.again.set_microbatch(stash.microbatch());
    compute_.range({.name = "recompute", .category = Category::recompute, .layer = layer_},
                   [&] { block_->forward(std::move(saved.x), saved.again); });
    return saved.again;
  }

  Stream& compute_;
  int layer_;
  std::unique_ptr<Layer> block_;
};

/// A builder whose blocks recompute according to `mode`. `Base` builds all layers except the
/// attention core of Recompute::none. The embedding and the head (final norm, logits, loss)
/// are outside the blocks and are never recomputed: the head's backward follows its forward
/// immediately, so its stash would be recomputed at once.
template <class Base = ModelBuilder>
class Recomputing : public Base {
 public:
  template <class... Arguments>
  explicit Recomputing(Recompute mode, Arguments&&... base)
      : Base(std::forward<Arguments>(base)...), mode_(mode) {}

  std::unique_ptr<Layer> attention_core(const LayerSite& site) const override {
    if (mode_ != Recompute::none) return Base::attention_core(site);
    return std::make_unique<KeepingAttentionCore>(site, this->heads(site));
  }

  std::unique_ptr<Layer> block(const LayerSite& site) const override {
    std::unique_ptr<Layer> block = Base::block(site);
    if (mode_ != Recompute::full) return block;
    return std::make_unique<RecomputedBlock>(site, std::move(block));
  }

 private:
  Recompute mode_;
};

}  // namespace lockstep
