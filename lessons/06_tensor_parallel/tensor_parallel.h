#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/group.h"
#include "core/model/builder.h"
#include "core/model/ops.h"
#include "core/model/position_table.h"

namespace lockstep {

// Tensor parallelism (Shoeybi 2019, "Megatron-LM"): t ranks share every layer. Each rank holds a
// slice of each matrix and computes a part of each product. The activations between the layers
// (norms, residual connections) are the same on all t ranks.
//
// Two matrices in a row need only one exchange. The first is cut into columns, A = [A₁ .. A_t], and
// the second into rows. Rank i computes its columns of Y = GELU(X A), which are exactly the inputs
// of its rows of B. The sum over ranks, Σ Y_i B_i = Y B, is the only communication.

/// Megatron's f, before a matrix that is cut into columns: the identity in the forward pass, an
/// all-reduce in the backward pass. Every rank uses the same x with its own columns, so the
/// gradient of x is the sum of the ranks' gradients.
class OperatorF : public Layer {
 public:
  explicit OperatorF(Group& ranks) : ranks_(ranks) {}

  Tensor forward(Tensor x, Stash&) override { return x; }
  Tensor backward_input(Tensor dx, Stash&) override {
    ranks_.all_reduce(dx).wait();
    return dx;
  }
  void backward_weight(Stash&) override {}

 private:
  Group& ranks_;
};

/// Megatron's g, after a matrix that is cut into rows, and the conjugate of f: an all-reduce in the
/// forward pass, the identity in the backward pass. The output is the sum of the ranks' terms, so
/// the gradient of each term is the gradient of the sum.
class OperatorG : public Layer {
 public:
  explicit OperatorG(Group& ranks) : ranks_(ranks) {}

  Tensor forward(Tensor y, Stash&) override {
    ranks_.all_reduce(y).wait();
    return y;
  }
  Tensor backward_input(Tensor dy, Stash&) override { return dy; }
  void backward_weight(Stash&) override {}

 private:
  Group& ranks_;
};

/// The size of one rank's part if n is divided among t ranks. If t does not divide n, which only
/// happens to the vocabulary, the last parts are padded to this size (as DimensionCut does).
inline std::int64_t part_of(std::int64_t n, int t) {
  return (n + t - 1) / t;
}

/// The tokens whose rows of the token table, and whose logits, are on this rank.
inline VocabularyPart vocabulary_part(int vocabulary, const Group& ranks) {
  const std::int64_t rows = part_of(vocabulary, ranks.size());
  const std::int64_t first = std::min<std::int64_t>(vocabulary, ranks.rank() * rows);
  return {first, std::min(rows, vocabulary - first)};
}

/// An embedding whose token table is split along the vocabulary. Each rank looks up the tokens
/// whose rows it holds, and g adds the ranks' results, of which all but one are zero. Every rank
/// holds the whole position table, which rank 0 adds.
class VocabularyParallelEmbedding : public TokenLayer {
 public:
  /// `positions` are the tokens' positions in each sequence; empty means all.
  VocabularyParallelEmbedding(const LayerSite& site, Group& ranks, std::vector<Positions> positions,
                              std::unique_ptr<Layer> g)
      : ops_(site.device, site.layer, site.config.dtype),
        part_(vocabulary_part(site.config.vocabulary, ranks)),
        adds_positions_(ranks.rank() == 0),
        tokens_(site.parameter(token_table_spec(site.config))),
        positions_(site, std::move(positions)),
        g_(std::move(g)) {}

  Tensor forward(View tokens, Stash& stash) override {
    Tensor x =
        ops_.activation({tokens.shape[0], tokens.shape[1], tokens_.shape[1]}, "embedding output");
    const auto look_up = [&](View positions) {
      ops_.embedding_part_forward(tokens, part_, tokens_.value, positions, x);
    };
    adds_positions_ ? positions_.with_values(look_up) : look_up({});
    stash.of<Saved>(this).tokens = tokens;
    return g_->forward(std::move(x), stash);
  }
  void backward_input(Tensor dx, Stash& stash) override {
    stash.saved<Saved>(this).dx = std::move(dx);
  }
  void backward_weight(Stash& stash) override {
    Saved& saved = stash.saved<Saved>(this);
    const Tensor dx = g_->backward_input(std::move(saved.dx), stash);
    if (!tokens_.frozen)
      positions_.with_gradients([&](View rows) {
        ops_.embedding_part_backward(saved.tokens, part_, dx, tokens_.gradient, rows);
      });
    stash.drop(this);
  }
  void collect(std::vector<Parameter*>& parameters) override {
    parameters.push_back(&tokens_);
    positions_.collect(parameters);
  }
  Parameter& table() override { return tokens_; }

 private:
  struct Saved {
    View tokens;
    Tensor dx;
  };

  Ops ops_;
  VocabularyPart part_;
  bool adds_positions_;
  Parameter tokens_;
  PositionTable positions_;
  std::unique_ptr<Layer> g_;
};

/// Cross-entropy of logits that are divided along the vocabulary, (b, s, V/t) on each rank; no rank
/// ever holds a full row. The loss of a row is log Σ exp(z) - z[target]. Three numbers per row and
/// rank suffice for it: the maximum m of the rank's logits, Σ exp(z - m), and the target's logit,
/// which only one rank holds. The ranks gather these statistics and merge them, and each rank then
/// computes the gradient of its own logits.
class VocabularyParallelCrossEntropy : public LossLayer {
 public:
  VocabularyParallelCrossEntropy(const LayerSite& site, Group& ranks)
      : memory_(site.device.memory),
        ops_(site.device, site.layer, site.config.dtype),
        ranks_(ranks),
        part_(vocabulary_part(site.config.vocabulary, ranks)) {}

  void forward(Tensor logits, View targets, float scale, Stash& stash) override {
    const std::int64_t tokens = logits.shape().rows();
    Saved& saved = stash.of<Saved>(this);
    saved.targets = targets.reshaped({tokens});
    saved.scale = scale;
    const Tensor statistics{memory_, {ranks_.size(), 3, tokens}, MemoryCategory::communication};
    ops_.cross_entropy_part_forward(logits, saved.targets, part_,
                                    ranks_.chunk(statistics, ranks_.rank()));
    ranks_.all_gather(statistics).wait();
    saved.losses = ops_.statistic({tokens}, "losses");
    saved.lse = ops_.statistic({tokens}, "losses");
    ops_.cross_entropy_merge(statistics, saved.losses, saved.lse);
    saved.logits = std::move(logits);
  }
  double launch_sum(const Stash& stash, View sum) override {
    const Saved& saved = stash.saved<Saved>(this);
    ops_.sum(saved.losses, sum);
    return saved.scale;
  }
  Tensor backward(Stash& stash) override {
    Saved& saved = stash.saved<Saved>(this);
    Tensor logits = std::move(saved.logits);
    ops_.cross_entropy_part_backward(logits, saved.targets, part_, saved.lse, saved.scale, logits);
    stash.drop(this);
    return logits;
  }

 private:
  struct Saved {
    Tensor logits, losses, lse;
    View targets;
    float scale = 1;
  };

  Memory& memory_;
  Ops ops_;
  Group& ranks_;
  VocabularyPart part_;
};

/// Returns the cut of a parameter among the ranks of the tp axis. Parameters without a cut are
/// replicated: the norms' gains and biases, the biases after matrices cut into rows, and the
/// position table. Their gradients are the same on all ranks without communication, because they
/// depend only on activations (and their gradients) that are the same on all ranks.
inline std::vector<Cut> tensor_cuts(const GptConfig& config, const ParameterSpec& spec) {
  constexpr int tokens = 0, elements = 0;
  if (spec.order == head_spec(config).order || spec.order == token_table_order)
    return {{.axis = Axis::tp, .dimension = tokens}};
  const int unit = spec.unit();
  if (unit < 1 || unit > config.layers) return {};
  // The dimensions of a matrix along which Megatron's columns and rows lie: those of its outputs
  // and of its inputs.
  const bool in_out = weight_layout(config) == WeightLayout::in_out;
  const int columns = in_out ? 1 : 0, rows = in_out ? 0 : 1;
  // A rank takes whole heads of queries, keys and values (in a Llama, more heads of queries than of
  // the others), and then the same columns of SwiGLU's gate and of its factor.
  const std::int64_t head = config.head_width();
  const std::vector<std::int64_t> qkv{config.hidden, config.kv_width(), config.kv_width()};
  const std::vector<std::int64_t> inner(config.llama ? 2 : 1, config.mlp_width());
  switch (static_cast<BlockSlot>(spec.order - block_order(unit - 1, 0))) {
    case BlockSlot::qkv_weight:
      return {{.axis = Axis::tp, .dimension = columns, .sections = qkv, .grain = head}};
    case BlockSlot::qkv_bias:
      return {{.axis = Axis::tp, .dimension = elements, .sections = qkv, .grain = head}};
    case BlockSlot::projection_weight:
      return {{.axis = Axis::tp, .dimension = rows, .grain = head}};
    case BlockSlot::fc_weight:
      return {{.axis = Axis::tp, .dimension = columns, .sections = inner}};
    case BlockSlot::fc_bias:
      return {{.axis = Axis::tp, .dimension = elements}};
    case BlockSlot::mlp_projection_weight:
      return {{.axis = Axis::tp, .dimension = rows}};
    default:
      return {};
  }
}

/// Builds the model with every layer divided among the ranks of the tp axis. On one device (or with
/// t = 1), it builds the layers of ModelBuilder.
class TensorParallel : public ModelBuilder {
 public:
  std::vector<ParameterSpec> parameters(const GptConfig& config) const override {
    std::vector<ParameterSpec> specs = ModelBuilder::parameters(config);
    for (ParameterSpec& spec : specs) spec.cuts = tensor_cuts(config, spec);
    return specs;
  }

  /// A column-parallel layer is f and a Linear with 1/t of the outputs. A row-parallel layer is a
  /// Linear with 1/t of the inputs and g; its bias must be in the sum once, so rank 0 adds it.
  std::unique_ptr<Layer> linear(const LayerSite& site, const LinearSpec& spec) const override {
    Group* ranks = site.group(Axis::tp);
    if (ranks == nullptr) return ModelBuilder::linear(site, spec);
    auto layers = std::make_unique<Chain>();
    if (spec.split == LinearSplit::column) {
      layers->add(f(site, *ranks));
      layers->add(ModelBuilder::linear(site, column_part(spec, *ranks)));
    } else {
      layers->add(ModelBuilder::linear(site, row_part(spec, *ranks)));
      layers->add(g(site, *ranks));
    }
    return layers;
  }

  /// Heads are independent of each other, so attention itself needs no communication. The heads of
  /// queries that share a head of keys and values stay together, so t must divide g, the number of
  /// heads of keys. (With t > g, other implementations keep copies of keys and values on several
  /// ranks.)
  Heads heads(const LayerSite& site) const override {
    const Heads all = ModelBuilder::heads(site);
    const Group* ranks = site.group(Axis::tp);
    const int t = ranks == nullptr ? 1 : ranks->size();
    return {all.queries / t, all.keys / t};
  }

  std::unique_ptr<TokenLayer> embedding(const LayerSite& site) const override {
    Group* ranks = site.group(Axis::tp);
    if (ranks == nullptr) return ModelBuilder::embedding(site);
    return std::make_unique<VocabularyParallelEmbedding>(site, *ranks, positions(site),
                                                         g(site, *ranks));
  }

  std::unique_ptr<LossLayer> loss(const LayerSite& site) const override {
    Group* ranks = site.group(Axis::tp);
    if (ranks == nullptr) return ModelBuilder::loss(site);
    return std::make_unique<VocabularyParallelCrossEntropy>(site, *ranks);
  }

 protected:
  /// The exchanges before column-parallel and after row-parallel layers.
  virtual std::unique_ptr<Layer> f(const LayerSite&, Group& ranks) const {
    return std::make_unique<OperatorF>(ranks);
  }
  virtual std::unique_ptr<Layer> g(const LayerSite&, Group& ranks) const {
    return std::make_unique<OperatorG>(ranks);
  }

  /// Returns the description of one rank's part of a Linear.
  static LinearSpec column_part(LinearSpec spec, const Group& ranks) {
    spec.out = static_cast<int>(part_of(spec.out, ranks.size()));
    return spec;
  }
  static LinearSpec row_part(LinearSpec spec, const Group& ranks) {
    spec.in = static_cast<int>(part_of(spec.in, ranks.size()));
    spec.adds_bias = ranks.rank() == 0;
    return spec;
  }
};

}  // namespace lockstep
