#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/model/gpt.h"
#include "core/model/linear.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"

namespace lockstep {

// Sequence parallelism (Korthikanti 2022, section 4.2.2): between the matrix products, where tensor
// parallelism computes and keeps the same activations on all t ranks, each rank now holds only 1/t
// of the tokens. Norms and residual connections treat each token by itself, so they need no other
// change. An all-reduce is a reduce-scatter and an all-gather: the two halves take the place of f
// and g, and the tokens are divided in between.
//
// A shard of (b, s, h) has the shape (b, s/t, h), and consists of b s/t consecutive rows of the
// flattened (b s, h). It is contiguous, as collectives need it, and no layer between the products
// needs to know which sequence a token is from. (Megatron stores (s, b, h), so its shards are
// contiguous and are also parts of each sequence.)

/// The exchange of shards and whole tensors.
class SequenceShards {
 public:
  SequenceShards(const LayerSite& site, Group& ranks)
      : ops_(site.device, site.layer, site.config.dtype), ranks_(ranks) {}

  /// Returns (b, s, h) from this rank's (b, s/t, h), with an all-gather.
  Tensor gather(Tensor shard) const {
    const Shape& part = shard.shape();
    Tensor whole =
        ops_.activation({part[0], part[1] * ranks_.size(), part[2]}, "gathered sequence");
    ops_.copy(flat(shard), flat(ranks_.chunk(whole, ranks_.rank())));
    shard.reset();
    ranks_.all_gather(whole).wait();
    return whole;
  }
  /// Returns this rank's part (b, s/t, h) of the sum of all ranks' (b, s, h), with a
  /// reduce-scatter.
  Tensor scatter(Tensor terms) const {
    const Shape& whole = terms.shape();
    ranks_.reduce_scatter(terms).wait();
    Tensor shard =
        ops_.activation({whole[0], whole[1] / ranks_.size(), whole[2]}, "sequence shard");
    ops_.copy(flat(ranks_.chunk(terms, ranks_.rank())), flat(shard));
    return shard;
  }

 private:
  static View flat(View view) { return view.reshaped({view.elements()}); }

  Ops ops_;
  Group& ranks_;
};

/// Takes the place of f, before a column-parallel layer: an all-gather in the forward pass, a
/// reduce-scatter in the backward pass (Korthikanti's g).
class GatherSequence : public Layer {
 public:
  explicit GatherSequence(const SequenceShards& shards) : shards_(shards) {}

  Tensor forward(Tensor x, Stash&) override { return shards_.gather(std::move(x)); }
  Tensor backward_input(Tensor dx, Stash&) override { return shards_.scatter(std::move(dx)); }
  void backward_weight(Stash&) override {}

 private:
  SequenceShards shards_;
};

/// Takes the place of g, after a row-parallel layer: a reduce-scatter in the forward pass, an
/// all-gather in the backward pass (Korthikanti's ḡ).
class ScatterSequence : public Layer {
 public:
  explicit ScatterSequence(const SequenceShards& shards) : shards_(shards) {}

  Tensor forward(Tensor y, Stash&) override { return shards_.scatter(std::move(y)); }
  Tensor backward_input(Tensor dy, Stash&) override { return shards_.gather(std::move(dy)); }
  void backward_weight(Stash&) override {}

 private:
  SequenceShards shards_;
};

/// A column-parallel layer that keeps only this rank's shard of its input, and gathers the whole
/// input again for the weight's gradient: less memory, but one more all-gather.
class RegatheringLinear : public Layer {
 public:
  RegatheringLinear(const SequenceShards& shards, const LayerSite& site, const LinearSpec& spec)
      : shards_(shards), linear_(site, spec) {}

  Tensor forward(Tensor x, Stash& stash) override {
    stash.of<Saved>(this).shard = x.share();
    Tensor y = linear_.forward(shards_.gather(std::move(x)), stash);
    linear_.release_input(stash);
    return y;
  }
  Tensor backward_input(Tensor dy, Stash& stash) override {
    return shards_.scatter(linear_.backward_input(std::move(dy), stash));
  }
  void backward_weight(Stash& stash) override {
    linear_.restore_input(shards_.gather(std::move(stash.saved<Saved>(this).shard)), stash);
    linear_.backward_weight(stash);
    stash.drop(this);
  }
  void collect(std::vector<Parameter*>& parameters) override { linear_.collect(parameters); }

 private:
  struct Saved {
    Tensor shard;
  };

  SequenceShards shards_;
  Linear linear_;
};

/// Builds lesson 6's model with the tokens divided between the matrix products. The parameters and
/// their slices are the same.
class SequenceParallel : public TensorParallel {
 public:
  /// With `regather`, column-parallel layers keep shards of their inputs, as in Korthikanti.
  explicit SequenceParallel(bool regather = false) : regather_(regather) {}

  std::unique_ptr<Layer> linear(const LayerSite& site, const LinearSpec& spec) const override {
    Group* ranks = site.group(Axis::tp);
    if (!regather_ || spec.split != LinearSplit::column || ranks == nullptr)
      return TensorParallel::linear(site, spec);
    return std::make_unique<RegatheringLinear>(SequenceShards{site, *ranks}, site,
                                               column_part(spec, *ranks));
  }

 protected:
  std::unique_ptr<Layer> f(const LayerSite& site, Group& ranks) const override {
    return std::make_unique<GatherSequence>(SequenceShards{site, ranks});
  }
  std::unique_ptr<Layer> g(const LayerSite& site, Group& ranks) const override {
    return std::make_unique<ScatterSequence>(SequenceShards{site, ranks});
  }

 private:
  bool regather_;
};

/// The tensor between two stages of a pipeline whose ranks divide the tokens: a shard.
inline Boundary sequence_boundary(const Plan& plan, int microbatches) {
  Boundary boundary = plan.boundary(microbatches);
  boundary.token_parts = plan.mesh.size(Axis::tp);
  boundary.shape = {boundary.shape[0], boundary.shape[1] / boundary.token_parts, boundary.shape[2]};
  return boundary;
}

/// Returns whether the parameter of this order (ParameterSpec::order) is a norm's gain or bias.
inline bool is_norm(const GptConfig& config, int order) {
  const int layer = order / orders_of_a_unit - 1;
  if (layer < 0) return false;
  if (layer == config.layers) return order != head_spec(config).order;  // the final norm
  const auto slot = static_cast<BlockSlot>(order - block_order(layer, 0));
  return slot == BlockSlot::ln_1_weight || slot == BlockSlot::ln_1_bias ||
         slot == BlockSlot::ln_2_weight || slot == BlockSlot::ln_2_bias;
}

/// Sums the gradients of the norms' gains and biases over the ranks of the tp axis. Each rank has
/// computed them from its own tokens only. (All other gradients are complete: they are computed
/// from gathered tensors.) `parameters`, whole or in parts, are the same on all these ranks;
/// parameters other than the norms' are left unchanged. `layer` is for the trace.
inline void sum_norms(const Gpt& model, const std::vector<Parameter*>& parameters, Group& ranks,
                      int layer = -1) {
  std::vector<View> gradients;
  std::int64_t elements = 0;
  for (const Parameter* parameter : parameters)
    if (is_norm(model.config(), parameter->order) && !parameter->frozen) {
      gradients.push_back(parameter->gradient);
      elements += parameter->gradient.elements();
    }
  if (gradients.empty() || ranks.size() == 1) return;
  const Device device = model.device();
  const DType dtype = gradients.front().dtype;
  const Ops ops{device, layer, dtype};
  // one message for all vectors
  Tensor all{device.memory, {elements}, MemoryCategory::communication, dtype, "norm gradients"};
  const auto copy = [&](bool out) {
    std::int64_t first = 0;
    for (const View& gradient : gradients) {
      const View place = all.view().columns(first, gradient.elements());
      ops.copy(out ? place : gradient, out ? gradient : place);
      first += gradient.elements();
    }
  };
  copy(/*out=*/false);
  ranks.all_reduce(all).wait();
  copy(/*out=*/true);
}

/// Sums each unit's norm gradients as soon as they are complete. Other techniques' hooks that
/// read gradients must be registered before these, so that they see the sums.
class NormSums : public LayerHooks {
 public:
  /// Model and group must outlive this object.
  NormSums(Gpt& model, Group& ranks) : model_(model), ranks_(ranks) {
    hooks_ = HookScope{model, *this};
  }

  /// Called in the last microbatch's backward pass, when the unit's gradients are complete.
  void gradients_ready(const Unit& unit) override {
    sum_norms(model_, unit.parameters, ranks_, unit.index - 1);
  }

 private:
  Gpt& model_;
  Group& ranks_;
  HookScope hooks_;
};

}  // namespace lockstep
