#pragma once

#include <vector>

#include "core/device/device.h"
#include "core/model/microbatch.h"
#include "core/model/parameter.h"
#include "core/model/stash.h"

namespace lockstep {

/// The name of activations' gradients in memory reports (MemoryParts).
constexpr const char* activation_gradients = "gradients of activations";

/// A function with parameters, and its derivative. Activations have shape (b, s, width) and type
/// GptConfig::dtype.
///
/// The forward pass saves tensors for the backward pass in the microbatch's Stash, never in the
/// layer, so several microbatches can be in flight. The two halves of the backward pass can run
/// separately: pipelines send the input's gradient on before they compute the parameters'
/// gradients.
///
/// A tensor passed to a layer may be shared; the layer may write to it only if the layer is its
/// sole owner. The caller may overwrite a tensor that a layer returns.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Computes y = f(x). Saves tensors for the backward pass in the stash.
  virtual Tensor forward(Tensor x, Stash& stash) = 0;
  /// Computes dx from dy. Releases the saved tensors that the weight half does not need.
  virtual Tensor backward_input(Tensor dy, Stash& stash) = 0;
  /// Adds to the parameters' gradients. Afterwards the stash holds no tensors of this layer. The
  /// input half may already have added the gradients of small parameters (LayerNorm's, for
  /// example).
  virtual void backward_weight(Stash& stash) = 0;
  /// Runs both halves; calling them separately gives bitwise identical results. A composite layer
  /// releases each part's tensors as soon as that part is done.
  virtual Tensor backward(Tensor dy, Stash& stash) {
    Tensor dx = backward_input(std::move(dy), stash);
    backward_weight(stash);
    return dx;
  }
  /// Appends pointers to the layer's parameters; the layer keeps ownership.
  virtual void collect(std::vector<Parameter*>& parameters) { static_cast<void>(parameters); }
};

/// The first layer: from tokens to activations. A vocabulary-parallel embedding can replace it.
class TokenLayer {
 public:
  virtual ~TokenLayer() = default;
  /// Computes (b, s, h) from tokens (b, s) i32, which must stay valid until the backward pass.
  virtual Tensor forward(View tokens, Stash& stash) = 0;
  /// Only keeps dx (b, s, h) for the weight half, because tokens have no gradient.
  virtual void backward_input(Tensor dx, Stash& stash) = 0;
  virtual void backward_weight(Stash& stash) = 0;
  virtual void collect(std::vector<Parameter*>& parameters) = 0;
  /// The token table, which a tied head on the same rank shares.
  virtual Parameter& table() = 0;
};

/// The last layer: from logits to the loss. A vocabulary-parallel cross-entropy can replace it.
class LossLayer {
 public:
  virtual ~LossLayer() = default;
  /// Takes logits (b, s, V), and targets (b, s) i32, which must stay valid until the backward pass.
  /// The loss is the sum over tokens times `scale`, 1 / (tokens of the whole batch), so the losses
  /// of microbatches add up to the batch's mean.
  virtual void forward(Tensor logits, View targets, float scale, Stash& stash) = 0;
  /// Launches the sum of this microbatch's losses over its tokens, in nats, into `sum`, one double
  /// (Kernels::sums). Returns `scale`; the product of the sum and `scale` is this microbatch's
  /// share of the batch's mean loss, which is bitwise identical however the model is split.
  virtual double launch_sum(const Stash& stash, View sum) = 0;
  /// Returns dlogits (b, s, V), computed in the storage of the logits.
  virtual Tensor backward(Stash& stash) = 0;
};

/// A sequence of layers. Most of a transformer is built from these.
class Chain : public Layer {
 public:
  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash& stash) override;
  Tensor backward(Tensor dy, Stash& stash) override;
  void collect(std::vector<Parameter*>& parameters) override;

  void add(std::unique_ptr<Layer> layer) { layers_.push_back(std::move(layer)); }
  Layer& operator[](std::size_t i) { return *layers_[i]; }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace lockstep
