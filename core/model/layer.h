#pragma once

#include <vector>

#include "core/device/device.h"
#include "core/model/microbatch.h"
#include "core/model/parameter.h"
#include "core/model/stash.h"

namespace lockstep {

/// A function with parameters, and its derivative. Activations are (b, s, width), in
/// GptConfig::dtype.
///
/// What backward needs of forward lies in the microbatch's Stash, never in the layer, so that
/// several microbatches can be in flight. The two halves of backward can be apart: pipelines send
/// the gradient of the input on before they compute that of the parameters.
///
/// A tensor that is given to a layer may be shared; the layer reads it, and writes to it only where
/// it is the sole owner. A tensor that a layer returns is the caller's to overwrite.
class Layer {
 public:
  virtual ~Layer() = default;

  /// y = f(x). Saves in the stash what backward needs.
  virtual Tensor forward(Tensor x, Stash& stash) = 0;
  /// dx from dy. Releases what the weight half does not need, keeps what it does.
  virtual Tensor backward_input(Tensor dy, Stash& stash) = 0;
  /// Adds to the gradients of the parameters; afterwards the stash holds nothing of this layer. The
  /// gradients of small vectors beside (LayerNorm's) may have been added by the input half already.
  virtual void backward_weight(Stash& stash) = 0;
  /// Both halves, the same bits; a composite layer releases its parts one by one on the way.
  virtual Tensor backward(Tensor dy, Stash& stash) {
    Tensor dx = backward_input(std::move(dy), stash);
    backward_weight(stash);
    return dx;
  }
  /// Appends the layer's parameters, which stay the layer's.
  virtual void collect(std::vector<Parameter*>& parameters) { static_cast<void>(parameters); }
};

/// The first layer: from tokens to activations. A seam (vocabulary-parallel embedding).
class TokenLayer {
 public:
  virtual ~TokenLayer() = default;
  /// (b, s, h) from tokens (b, s) i32, which must stay until backward.
  virtual Tensor forward(View tokens, Stash& stash) = 0;
  /// There is no gradient of tokens: keeps dx (b, s, h) for the weight half.
  virtual void backward_input(Tensor dx, Stash& stash) = 0;
  virtual void backward_weight(Stash& stash) = 0;
  virtual void collect(std::vector<Parameter*>& parameters) = 0;
  /// The token table, which a tied head on the same rank uses too.
  virtual Parameter& table() = 0;
};

/// The last layer: from logits to the loss. A seam (vocabulary-parallel cross-entropy).
class LossLayer {
 public:
  virtual ~LossLayer() = default;
  /// Takes logits (b, s, V) and targets (b, s) i32, which must stay until backward. The loss is the
  /// sum over tokens times `scale`, which is 1 / (tokens of the whole batch): microbatches add up
  /// to the batch's mean.
  virtual void forward(Tensor logits, View targets, float scale, Stash& stash) = 0;
  /// This microbatch's share of the batch's mean loss, in nats; the same bits on every split. Waits
  /// for the device. 0 on the meta device.
  virtual double value(const Stash& stash) = 0;
  /// dlogits (b, s, V), in the place of the logits.
  virtual Tensor backward(Stash& stash) = 0;
};

/// Layers one after another. Most of a transformer is this.
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
